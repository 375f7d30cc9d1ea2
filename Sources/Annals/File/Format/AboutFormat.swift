// Format: the bytes of the file, encoded and decoded. FileFormat.md describes them in words.
//
// Uses: System, for errors. It opens no file and keeps no state.
//
// Start with `FrameHeader`: every frame has one, with its checksums. `FileHeader` is the first page.
// `TransactionRecord` and `ChangeView` are the tables of a transaction, `RowLayout`, `RowShape` and `RowImage` its
// rows. `SchemaDefinition` and `SchemaCatalog` define the meaning of rows, `StoredValue` is a value. `ByteReader` and
// `ByteWriter` take bytes apart and put them together. `OrderedKey` and `NormalForm` make keys whose bytes compare like
// their values.
//
// Decoding never trusts bytes: each function throws `damaged` or `unsupportedVersion`, with the rule (F1 to F37) and
// the offset, and never reads outside the given bytes. Only the `…Field` enumerations contain numbers of the format.
