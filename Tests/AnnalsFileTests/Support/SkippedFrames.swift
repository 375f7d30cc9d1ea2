// Files with frames of later formats, which are skipped.

import Annals

enum SkippedFrames {
    /// Three transactions, the second one of several frames. With `kinds`, frames of kinds that nobody knows stand
    /// between all that such a frame may stand between.
    static func notes(skipping kinds: [UInt8]) throws -> ForgedFile {
        var file = try ForgedFile.withNotes()
        var left = kinds
        func skipped(isMember: Bool) {
            guard let kind = left.popLast() else { return }
            let (table, body) = ([UInt8](repeating: kind, count: 24), [UInt8](repeating: 1, count: 40))
            file.add(.skipped, isMember: isMember, table: table, body: body) {
                ($0[FrameField.kind], $0[FrameField.flags]) = (kind, isMember ? 3 : 2)
            }
        }
        skipped(isMember: false)
        let first = file.addCommit([.insert(1, try Note.encoded("one")), .insert(2, try Note.encoded("two", 2))])
        skipped(isMember: false)
        file.mark = file.end
        file.addPart([.update(1, try Note.encoded("one, changed", 1), previous: first.rows[0], words: [3])])
        skipped(isMember: true)
        file.addPart([.insert(3, try Note.encoded("three"))])
        file.addCommit([.delete(2, previous: first.rows[1])])
        skipped(isMember: false)
        file.addCommit([.insert(4, try Note.encoded("four"))])
        skipped(isMember: false)
        return file
    }

    /// Their kinds stay without a meaning, so no later program knows them either.
    static func golden() throws -> [UInt8] { try notes(skipping: [240, 241, 250, 254, 255]).finished() }
}
