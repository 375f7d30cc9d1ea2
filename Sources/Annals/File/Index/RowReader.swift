// Reading many rows of one entity.
//
// Invariants:
// RR1  `stretch` was verified in the read section in which this value is used. A reader by copies may forget bytes
//      between two sections.

/// Rows of one entity, one after the other: knows which bytes around the last row were verified, and the shape of its
/// version, so that most rows cost two comparisons.
struct RowReader {
    private let core: ReadCore
    private let schema: StoreShape
    private let entity: UInt16
    private var stretch: VerifiedStretch
    private var version: UInt16 = 0
    private var shape: RowShape?

    init(_ core: ReadCore, _ schema: StoreShape, entity: UInt16) {
        (self.core, self.schema, self.entity) = (core, schema, entity)
        stretch = core.file.noStretch
    }

    /// The row at an offset.
    @inline(__always)
    mutating func row(at offset: UInt64) throws(StoreError) -> RowImage {
        if !stretch.holds(offset, RowField.bytes) {
            stretch = try core.file.stretch(at: offset, count: RowField.bytes)
        }
        let header = stretch.bytes(at: offset, count: RowField.bytes).integer(at: 0, as: UInt64.self)
        let (version, rowBytes) = RowField.versionAndBytes(of: header)
        if shape == nil || version != self.version {
            (shape, self.version) = (schema.shape(version: version, entity: entity), version)
        }
        guard let shape, rowBytes <= FormatLimits.maximumFrameBytes, rowBytes >= RowField.bytes else {
            throw ReadCore.badRow(offset)
        }
        if !stretch.holds(offset, rowBytes) { stretch = try core.file.stretch(at: offset, count: rowBytes) }
        return try RowImage(
            stretch.bytes(at: offset, count: rowBytes), rowBytes: rowBytes, shape, fileOffset: offset)
    }
}
