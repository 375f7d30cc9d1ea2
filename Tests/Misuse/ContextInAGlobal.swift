// A context that every thread could use.

import Annals

enum Everywhere {
    nonisolated(unsafe) static var store: Store?
    static let context = store?.makeContext()
}
