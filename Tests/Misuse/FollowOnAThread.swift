// A context follows its store on a plain thread, which has no isolation to merge in.

import Annals

func follow(_ store: Store) throws {
    let context = store.makeContext()
    try context.follow()
}
