// The target of the mirror's messages: bodies as a courier delivers them, and contents under right checksums.
//
// Invariants:
// ZM1  Any bytes decode, or throw `exportMalformed` or `unsupportedVersion`.
// ZM2  A message that decodes is written in the form in which it was read.

internal import Annals
internal import AnnalsMirror

extension FuzzTargets {
    /// The first byte chooses: 0 for a whole body, otherwise the kind of a message whose content follows.
    package static func messages(_ bytes: UnsafeRawBufferPointer) {
        timed("A message") {
            guard let first = bytes.first else { return }
            let rest = [UInt8](bytes.dropFirst())
            let body = first == 0 ? rest : sealed(first, rest)
            do throws(StoreError) {
                switch try MessageBody(body) {
                case .whole(let message): try requireSame(try message.encoded(), body)
                case .part(let part): try requireSame(part.encoded(), body)
                }
            } catch {
                require(
                    error.code == .exportMalformed || error.code == .unsupportedVersion, "ZM1",
                    "decoding a message throws \(error)")
            }
        }
    }

    private static func requireSame(_ encoded: [UInt8], _ body: [UInt8]) throws(StoreError) {
        require(encoded == body, "ZM2", "a message is written in another form than it was read in")
    }

    /// A message with a right length and checksum, as MirrorMessages.md describes them.
    private static func sealed(_ kind: UInt8, _ content: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [0x89, 0x41, 0x4d, 1, kind, 0, 0, 0] + [UInt8](repeating: 0, count: 16) + content
        bytes.store(UInt32(content.count), at: 8)
        let seed = bytes[..<16].withUnsafeBytes { Checksum.hash($0, seed: 0) }
        bytes.store(bytes[24...].withUnsafeBytes { Checksum.hash($0, seed: seed) }, at: 16)
        return bytes
    }
}
