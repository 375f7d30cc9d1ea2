// The FORMAT file of a mirror's folder: the version of its form, and its group.

internal import Annals

enum FolderFormat {
    static let maximumBytes = 4096
    private static let firstLine = "Annals mirror folder"
    private static let version: UInt64 = 1

    /// The content is the same on every machine, so two that create it at the same time do not conflict.
    static func bytes(group: String) -> [UInt8] { Array("\(firstLine)\nversion \(version)\ngroup \(group)\n".utf8) }

    /// Throws unless the content is that of a group's folder, of this version.
    static func check(_ content: [UInt8], group: String, path: String) throws(StoreError) {
        let expected = bytes(group: group)
        if content == expected { return }
        if expected.starts(with: content) {
            throw StoreError(
                .courierUnreachable,
                "The folder's FORMAT file is not complete yet: wait until the synchronizer has delivered it. If none "
                    + "does, remove the file.",
                path: path)
        }
        let lines = String(decoding: content, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count >= 2, lines[0] == firstLine[...], lines[1].hasPrefix("version "),
            let found = FolderNames.number(lines[1].dropFirst("version ".count))
        else {
            throw StoreError(
                .courierSettings,
                "The folder has a FORMAT file that is not of a mirror: give the mirror an empty folder.", path: path)
        }
        if found > version { throw FolderError.laterVersion(path) }
        let name = lines.count > 2 && lines[2].hasPrefix("group ") ? lines[2].dropFirst("group ".count) : "?"
        throw FolderError.otherGroup(String(name), path)
    }
}
