// A store in the lower layer of an overlay file system, which the first writer copies to the upper one.

import Annals
import Foundation
import Glibc
import TestSupport
import Testing

@Suite struct OverlayTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private static let entity = EntityDescription("Clip", attributes: [AttributeDescription("n", .int)])

    /// Without an overlay: a copy of the file takes the store's place, and others write to the copy.
    @Test(arguments: [Store.Reading.mapped, .copied])
    func aReaderSwitchesToACopyOfItsFile(reading: Store.Reading) throws {
        let store = try folder.open([Self.entity])
        try store.writeOptimistically { try $0.insert("Clip", ["n": 1]) }
        try store.close()
        let reader = try folder.open {
            $0.access = .readOnly
            $0.reading = reading
        }
        #expect(try reader.snapshot().count(of: "Clip") == 1)
        let copy = folder.temporary.path("copy")
        try Data(contentsOf: URL(fileURLWithPath: folder.path)).write(to: URL(fileURLWithPath: copy))
        #expect(rename(copy, folder.path) == 0)
        let writer = try folder.open()
        try writer.writeOptimistically { try $0.insert("Clip", ["n": 2]) }
        // Looks at the place once a second.
        let end = ContinuousClock.now + .seconds(30)
        while try reader.snapshot().count(of: "Clip") < 2, .now < end { usleep(50_000) }
        #expect(try reader.snapshot().count(of: "Clip") == 2)
        try writer.writeOptimistically { try $0.insert("Clip", ["n": 3]) }
        #expect(try reader.snapshot().count(of: "Clip") == 3)
        try writer.close()
        try reader.close()
        try folder.expectIntact()
    }

    /// With a real one, in a namespace of its own.
    @Test func aReaderSeesWritesToTheUpperLayer() throws {
        let script = """
            set -e
            cd "$1"
            mkdir lower upper work merged
            "$2" overlay-make lower/s.annals
            mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77
            exec "$2" overlay merged/s.annals
            """
        guard access("/usr/bin/unshare", X_OK) == 0 else { return print("OverlayTests: skipped, without unshare") }
        let run = try runTool(
            [
                "-rm", "/bin/sh", "-c", script, "sh", folder.temporary.path,
                URL(fileURLWithPath: toolPath("crash-helper")).path(percentEncoded: false),
            ],
            name: "/usr/bin/unshare")
        if run.status == 77 || run.errors.contains("unshare: ") {
            print("OverlayTests: skipped, because this machine allows no overlay mount: \(run.errors)")
            return
        }
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }
}
