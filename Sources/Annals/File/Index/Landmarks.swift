// The start of one frame for each MiB of the file: leads from an offset to a frame, and from a number to a transaction.
//
// Invariants:
// M1  Landmark m is a frame that begins in MiB m; every MiB below the last landmark's has one, because no frame is as
//     long as half of it.
// M2  Numbers never fall from one landmark to the next.

/// The landmarks of a file. A value: a copy shares its memory until one of the two grows.
package struct Landmarks: Sendable {
    package static let stepBits: UInt64 = 20
    package private(set) var all: [Landmark] = []

    package init() {}

    /// Accepts stored landmarks. Throws `damaged` if they are not in order.
    package init(stored: [Landmark], below end: UInt64) throws(StoreError) {
        for (index, landmark) in stored.enumerated() {
            guard landmark.offset >> Self.stepBits == UInt64(index), landmark.offset < end,
                landmark.offset % UInt64(FormatLimits.frameAlignment) == 0,
                index == 0 || landmark.number >= stored[index - 1].number
            else { throw StoreError(.damaged, "F32: the landmarks of a checkpoint are not in order.") }
        }
        all = stored
    }

    /// Notes a frame that counts, if it is the first that is noted in its MiB; returns whether it was.
    @inline(__always)
    package mutating func note(_ offset: UInt64, number: UInt64) -> Bool {
        guard offset >> Self.stepBits >= UInt64(all.count) else { return false }
        add(offset, number)
        return true
    }

    private mutating func add(_ offset: UInt64, _ number: UInt64) {
        while UInt64(all.count) < offset >> Self.stepBits {
            // No writer leaves a MiB without a frame; in a file with such a MiB, walking begins further below.
            guard let last = all.last else { return }
            all.append(last)
        }
        assert(UInt64(all.count) == offset >> Self.stepBits, "M1: a landmark is outside of its MiB.")
        assert(all.last.map { $0.number <= number } ?? true, "M2: the number of a landmark falls.")
        all.append(Landmark(offset: offset, number: number))
    }

    /// The last landmark at or below an offset; nil if walking begins with the first frame.
    package func last(at offset: UInt64) -> Landmark? {
        var index = min(Int(clamping: offset >> Self.stepBits), all.count - 1)
        while index >= 0, all[index].offset > offset { index -= 1 }
        return index >= 0 ? all[index] : nil
    }

    /// The last landmark whose number is at most `number`; nil if walking begins with the first frame.
    package func last(number: UInt64) -> Landmark? {
        var low = 0
        var high = all.count
        while low < high {
            let middle = (low + high) / 2
            if all[middle].number <= number { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? all[low - 1] : nil
    }
}
