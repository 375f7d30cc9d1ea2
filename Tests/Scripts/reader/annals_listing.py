"""Writes a small store file as the worked example of the page shows it: a line for each field, with its bytes and its
meaning."""
import datetime
import struct

from annals_parts import SLOT_BYTES, VARIABLE, definition, padded, text, u16, u32, u64

KINDS = [None, "transaction", "part", "value", "schema", "rows", "nodes", "checkpoint", "consumer", "metadata",
         "cleaning", "recovery", "seal", "replacing"]
CHANGES = ["base", "insert", "update", "delete"]
ATTRIBUTE_FLAGS = ["optional", "indexed", "unique", "preserved on deletion"]


class Listing:
    def __init__(self, data):
        self.data, self.at, self.lines = data, 0, []
        self.entities = {}

    def title(self, line):
        self.lines += ([""] if self.lines else []) + [line]

    def put(self, count, meaning=""):
        """The next bytes, as many lines of 16 as they take."""
        if not count:
            return
        if count > 16 and not any(self.data[self.at:self.at + count]):
            self.line(f"00 x {count}", count, meaning)
            return
        while count:
            part = min(count, 16)
            self.line(self.data[self.at:self.at + part].hex(" "), part, meaning)
            count, meaning = count - part, ""

    def line(self, shown, count, meaning):
        width = 47 if len(shown) > 23 else 23
        self.lines.append(f"{self.at:06x}  {shown:{width}}  {meaning}".rstrip())
        self.at += count

    def number(self, form, meaning):
        """An integer, whose meaning may show it as `{}`, or in hexadecimal as `{:x}`."""
        count = struct.calcsize("<" + form)
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.put(count, meaning.format(value))
        return value

    def time(self, name):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
            microseconds=struct.unpack_from("<q", self.data, self.at)[0])
        self.put(8, f"{name} {moment.isoformat()}Z")

    def zeros_to(self, end):
        self.put(end - self.at, "zero")

    # ------------------------------------------------------------------------------------------ the page, frames

    def file(self):
        self.title("The header page")
        self.put(8, "header.magic")
        self.number("H", "read version {}")
        self.number("H", "write version {}")
        self.number("I", "header of {} bytes")
        self.put(16, "store ID")
        self.number("Q", "generation {}")
        self.number("Q", "salt {:016x}")
        self.time("created")
        self.number("Q", "base number {}")
        self.number("Q", "base tag {}")
        self.put(8, "base time: the smallest")
        self.put(40, "zero")
        self.put(8, "header.checksum")
        for slot in (512, 1024):
            self.zeros_to(slot)
            if any(self.data[slot:slot + 64]):
                self.title("A hint")
                self.number("Q", "sequence {}")
                self.number("Q", "checkpoint at {:x}")
                self.number("Q", "durable end {:x}: the end of the seal")
                self.number("Q", "transaction {}")
                self.put(24, "zero")
                self.put(8, "hint.checksum")
        self.title("The rest of the header page")
        self.zeros_to(4096)
        end = len(self.data.rstrip(b"\0"))
        while self.at < end:
            self.frame()
        return self.lines

    def frame(self):
        start, kind = self.at, self.data[self.at + 12]
        member = ", member" if self.data[start + 13] else ""
        self.title(f"A {KINDS[kind]} frame at {start:x}{member}")
        self.put(8, "frame.checksum")
        end = start + self.number("I", "{} bytes")
        self.number("B", f"kind {{}}: {KINDS[kind]}")
        self.number("B", "flags {}")
        self.put(2, "zero")
        self.number("Q", "number {}")
        self.number("Q", "durable mark {:x}")
        self.put(8, "checksum of the frame before")
        self.put(8, "frame.tableChecksum")
        self.put(8, "frame.bodyChecksum")
        table = self.number("I", "table of {} bytes")
        self.put(4, "zero")
        getattr(self, KINDS[kind])(start, start + 64 + table, end)
        self.zeros_to(end)

    # ------------------------------------------------------------------------------------------ kinds of frames

    def transaction(self, start, table_end, _):
        self.put(8, "tag")
        self.time("time")
        self.number("Q", "start {:x}")
        self.number("Q", "changes in all: {}")
        self.number("I", "changes in this frame: {}")
        self.number("I", "process {}")
        self.number("I", "author {}")
        self.number("I", "context {}")
        self.number("I", "process name {}")
        self.number("H", "flags {}")
        self.number("H", "schema version {}")
        self.number("Q", "first change {}")
        rows = []
        while self.at < table_end:
            entity, number = u16(self.data, self.at + 6), u32(self.data, self.at)
            self.put(8, f"change: entity {entity}, object {number}")
            row = self.number("I", "row at {} of this frame")
            self.number("B", f"kind {{}}: {CHANGES[self.data[self.at]]}")
            shape = self.number("B", "shape {:02x}")
            self.put(2, "zero")
            if shape >> 7:
                self.number("Q", "previous version at {:x}")
            for _ in range(shape & 31):
                self.number("Q", "attribute set {:b}")
            rows += [(entity, start + row)] if row else []
        for entity, at in rows:
            self.row(entity, at)

    def row(self, entity, at):
        attributes = self.entities[entity]
        presence = self.data[at + 8 + sum(SLOT_BYTES[a.type] for a in attributes)]
        self.number("H", "row: its entry is {} x 8 bytes before")
        self.number("H", "schema version {}")
        size = self.number("I", "row of {} bytes")
        ends = []
        for place, attribute in enumerate(attributes):
            if attribute.type in VARIABLE:
                ends.append(self.number("I", f"{attribute.name} ends at {{}}"))
            else:
                self.number("q", f"{attribute.name} {{}}" if presence >> place & 1 else f"{attribute.name} is null")
        self.number("B", "presence {:b}")
        for end in ends:
            value = self.data[self.at:at + end]
            self.put(len(value), f'"{text(value, "")}"')
        self.put(padded(size) - size, "padding")

    def schema(self, *_):
        self.number("H", "schema version {}")
        count = self.number("H", "definitions: {}")
        self.put(4, "zero")
        for _ in range(count):
            self.entity()

    def entity(self):
        start, size = self.at, u32(self.data, self.at)
        number = u16(self.data, self.at + 4)
        self.entities[number] = definition(self.data[start:start + size]).attributes
        self.number("I", "definition of {} bytes")
        self.number("H", "entity {}")
        self.number("B", "state {}: present")
        self.number("B", "flags {}")
        name_bytes = self.number("H", "name of {} bytes")
        self.number("H", "attributes: {}")
        self.number("H", "keys: {}")
        self.put(2, "zero")
        self.put(name_bytes, f'"{text(self.data[self.at:self.at + name_bytes], "")}"')
        for attribute in self.entities[number]:
            self.number("H", "attribute {}")
            self.number("B", "type {}")
            flags = ", ".join(f for i, f in enumerate(ATTRIBUTE_FLAGS) if attribute.flags >> i & 1)
            self.number("B", "flags {}: " + flags)
            self.put(6, "target, size of the inverse, delete rule, zero")
            name_bytes = self.number("H", "name of {} bytes")
            self.put(4, "no default")
            self.put(4, "no parameters, zero")
            self.put(name_bytes, f'"{attribute.name}"')
        self.put(start + size - self.at, "padding")

    def metadata(self, _, table_end, __):
        while self.at < table_end:
            self.number("H", "record type {}: name")
            self.put(2, "zero")
            size = self.number("I", "content of {} bytes")
            self.number("I", "name number {}")
            self.put(size - 4, f'"{text(self.data[self.at:self.at + size - 4], "")}"')
            self.put(padded(size) - size, "padding")

    def seal(self, *_):
        self.time("time")
        self.number("Q", "checkpoint at {:x}")

    def nodes(self, _, __, end):
        self.number("I", "nodes: {}")
        self.put(4, "zero")
        while self.at < end:
            # The first node is a leaf of the row index: its first word is of object 0, which never was.
            if u64(self.data, self.at) == 0:
                self.row_leaf()
            else:
                self.ordered_leaf()

    def row_leaf(self):
        start = self.at
        self.lines.append(f"  a leaf of the row index at {start:x}")
        self.put(8, "object 0: never was")
        number = 1
        while any(self.data[self.at:start + 4096]):
            word = u64(self.data, self.at)
            meaning = f"deleted by the entry at {word - 1:x}" if word & 1 else f"its row is at {word:x}"
            self.put(8, f"object {number}: {meaning}")
            number += 1
        self.put(start + 4096 - self.at, "the others: never were")

    def ordered_leaf(self):
        start = self.at
        self.lines.append(f"  a leaf of the ordered index at {start:x}")
        self.number("H", "level {}")
        count = self.number("H", "slots: {}")
        self.number("H", "{} bytes of entries")
        lowest = self.number("H", "the lowest entry is at {} of the node")
        self.number("H", "{} bytes shared by all keys")
        self.put(6, "zero")
        slots = []
        for _ in range(count):
            self.put(4, "head: four bytes of the key")
            slots.append((self.number("H", "entry at {} of the node"), self.number("H", "key of {} bytes")))
        self.zeros_to(start + lowest)
        for _, key_bytes in reversed(slots):
            self.put(8, f"entity {u16(self.data, self.at + 6)}, object {u32(self.data, self.at)}")
            self.put(key_bytes, "its key")

    # ------------------------------------------------------------------------------------------ the document

    def checkpoint(self, _, __, ___):
        self.number("Q", "document of {} bytes")
        self.number("I", "pieces: {}")
        self.put(4, "zero")
        self.number("Q", "features for readers: {:x}")
        self.number("Q", "features for writers: {:x}")
        self.number("Q", "last transaction {}")
        self.put(8, "its tag")
        self.time("its time")
        for name in ("recoveries: {}", "frames: {}", "transactions: {}", "changes: {}", "may step back: {}"):
            self.number("Q", name)
        self.number("Q", "counted end {:x}")
        for kind in range(16):
            self.number("Q", f"bytes of kind {kind}: {{}}")
        for _ in range(self.number("I", "1. names: {}")):
            size = self.number("H", "{} bytes")
            self.put(size, f'"{text(self.data[self.at:self.at + size], "")}"')
        for _ in range(self.number("I", "2. schema versions: {}")):
            for _ in range(self.number("I", "tables: {}")):
                size = self.number("I", "{} bytes")
                self.put(size, "the table of the schema frame")
        for _ in range(self.number("I", "3. row indexes: {}")):
            self.number("H", "entity {}")
            self.number("H", "depth {}")
            self.number("Q", "root at {:x}")
            self.number("Q", "next number {}")
            self.number("Q", "objects: {}")
        for _ in range(self.number("I", "4. ordered indexes: {}")):
            self.number("H", "entity {}")
            self.number("B", "flags {}: unique, complete")
            for _ in range(self.number("H", "attributes: {}")):
                self.number("H", "attribute {}")
            self.number("Q", "root at {:x}")
            self.number("Q", "entries: {}")
        self.number("I", "5. frames of landmarks: {}")
        for _ in range(self.number("I", "landmarks: {}")):
            self.number("Q", "a frame at {:x}")
            self.number("Q", "its number {}")
        self.number("Q", "6. horizon {}")
        self.number("Q", "retention: {} microseconds")
        self.number("Q", "{} bytes")
        self.number("I", "hidden authors: {}")
        self.number("I", "consumers: {}")
        self.number("I", "7. extensions: {}")
