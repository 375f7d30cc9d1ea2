// What tests of trackers share.

import Annals

struct BodyFailure: Error {}

struct SampleClip: Entity {
    var title = ""
    var url = ""

    static let schema = Schema<SampleClip> { Attribute(\.url, .unique, .preservedOnDeletion) }
}
