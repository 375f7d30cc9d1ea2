"""Writes a small store file as the worked example of the page shows it: lines of one field or several, with their bytes
and their meaning. Forms that the example has shown once take fewer lines after that."""
import contextlib
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
        self.joined = None      # fields of a line that is not complete: their bytes and meanings
        self.shown = set()      # forms that are shown already

    def title(self, line):
        self.lines += ([""] if self.lines else []) + [line]

    def put(self, count, meaning=""):
        """The next bytes: a line, or a part of the line that is being joined, where zeros belong to the
        field before."""
        if not count:
            return
        data = self.data[self.at:self.at + count]
        if self.joined and meaning in ("zero", "padding"):
            self.joined[-1] = (self.joined[-1][0] + data.hex(), self.joined[-1][1])
            self.at += count
        elif self.joined is not None:
            self.joined.append((data.hex(), meaning))
            self.at += count
        elif count > 8 and not any(data):
            self.line(f"00 x {count}", count, meaning)
        else:
            for start in range(0, count, 32):
                part = data[start:start + 32]
                self.line(part.hex(), len(part), "" if start else meaning)

    def line(self, shown, count, meaning):
        self.lines.append(f"{self.at:06x}  {shown:16}  {meaning}".rstrip())
        self.at += count

    @contextlib.contextmanager
    def join(self, when=True, gap=" "):
        """The fields that are put inside share a line."""
        if not when or self.joined is not None:
            yield
            return
        start, self.joined = self.at, []
        yield
        fields, self.joined, self.at = self.joined, None, start
        count = sum(len(bytes) for bytes, _ in fields) // 2
        self.line(gap.join(bytes for bytes, _ in fields), count, ", ".join(m for _, m in fields if m))

    def is_new(self, form):
        """Whether a form is shown for the first time."""
        is_new = form not in self.shown
        self.shown.add(form)
        return is_new

    def number(self, form, meaning):
        """An integer, whose meaning may show it as `{}`, or in hexadecimal as `{:x}`."""
        count = struct.calcsize("<" + form)
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.put(count, meaning.format(value))
        return value

    def time(self, name):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
            microseconds=struct.unpack_from("<q", self.data, self.at)[0])
        is_new = self.is_new(moment.date())
        self.put(8, f"{name} {moment.isoformat()}Z" if is_new else f"{name} {moment.time()}")

    def zeros_to(self, end):
        self.put(end - self.at, "zero")

    # ------------------------------------------------------------------------------------------ the page, frames

    def file(self):
        self.title("The header page")
        self.put(8, "header.magic")
        with self.join():
            self.number("H", "read version {}")
            self.number("H", "write version {}")
            self.number("I", "header of {} bytes")
        self.put(16, "store ID")
        self.number("Q", "generation {}")
        self.number("Q", "salt {:016x}")
        self.time("created")
        with self.join():
            self.number("Q", "base number {}")
            self.number("Q", "base tag {}")
            self.put(8, "base time: the smallest")
        self.put(40, "zero")
        self.put(8, "header.checksum")
        for slot in (512, 1024):
            if any(self.data[slot:slot + 64]):
                self.zeros_to(slot)
                self.number("Q", "a hint: sequence {}")
                self.number("Q", "checkpoint at {:x}")
                self.number("Q", "durable end {:x}: the end of the seal")
                self.number("Q", "transaction {}")
                self.put(24, "zero")
                self.put(8, "hint.checksum")
        self.zeros_to(4096)
        end = len(self.data.rstrip(b"\0"))
        while self.at < end:
            self.frame()
        self.title("The page after the seal")
        self.zeros_to(len(self.data))
        return self.lines

    def frame(self):
        start, kind = self.at, self.data[self.at + 12]
        self.title(f"{KINDS[kind].capitalize()} frame")
        joins = not self.is_new("frame")
        with self.join(joins, gap=""):
            self.put(8, "" if joins else "frame.checksum")
            end = start + self.number("I", "{} bytes")
            with self.join():
                self.number("B", "kind {}")
                self.put(1, "member" if self.data[self.at] else "" if joins else "flags 0")
                self.put(2, "zero")
            self.number("Q", "number {}")
            self.number("Q", "mark {:x}" if joins else "durable mark {:x}")
        with self.join(joins, gap=""):
            self.put(8, "" if joins else "frame.previousChecksum")
            self.put(8, "" if joins else "frame.tableChecksum")
            self.put(8, "" if joins else "frame.bodyChecksum")
            with self.join():
                table = self.number("I", "table of {} bytes")
                self.put(4, "zero")
        getattr(self, KINDS[kind])(start, start + 64 + table, end)
        self.zeros_to(end)

    # ------------------------------------------------------------------------------------------ kinds of frames

    def transaction(self, start, table_end, _):
        joins = not self.is_new("transaction")
        with self.join(joins, gap=""):
            self.put(8, "tag")
            self.time("time")
            self.number("Q", "start {:x}")
            self.number("Q", "" if joins else "changes: {}")
        with self.join(joins, gap=""):
            self.number("I", "changes: {}" if joins else "in this frame: {}")
            with self.join():
                for name in ("process", "author", "context", "process name"):
                    self.number("I", "" if joins else f"{name} {{}}")
            with self.join():
                self.number("H", "flags {}")
                self.number("H", "" if joins else "schema version {}")
                self.number("Q", "" if joins else "first change {}")
        rows = []
        while self.at < table_end:
            entity, number = u16(self.data, self.at + 6), u32(self.data, self.at)
            with self.join():
                kind = CHANGES[self.data[self.at + 12]]
                self.put(8, f"{kind} object {number} of entity {entity}")
                row = self.number("I", "row at {} of the frame")
                self.put(1)
                shape = self.number("B", "shape {:02x}")
                self.put(2, "zero")
            with self.join(shape):
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
        with self.join():
            self.number("H", "row: entry {} x 8 bytes before")
            self.number("H", "version {}")
            size = self.number("I", "{} bytes")
        with self.join():
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
        with self.join():
            self.number("H", "schema version {}")
            count = self.number("H", "definitions: {}")
            self.put(4, "zero")
        for _ in range(count):
            self.entity()

    def entity(self):
        start, size = self.at, u32(self.data, self.at)
        number = u16(self.data, self.at + 4)
        self.entities[number] = definition(self.data[start:start + size]).attributes
        with self.join():
            self.number("I", "definition of {} bytes")
            self.number("H", "entity {}")
            self.number("B", "state {}")
            self.number("B", "flags {}")
        with self.join():
            name_bytes = self.number("H", "name of {} bytes")
            self.number("H", "attributes: {}")
            self.number("H", "keys: {}")
            self.put(2, "zero")
            self.put(name_bytes, f'"{text(self.data[self.at:self.at + name_bytes], "")}"')
        for attribute in self.entities[number]:
            with self.join():
                self.number("H", "attribute {}")
                self.number("B", "type {}")
                flags = ", ".join(f for i, f in enumerate(ATTRIBUTE_FLAGS) if attribute.flags >> i & 1)
                self.number("B", "flags {}: " + flags)
            with self.join():
                self.put(6, "no reference")
                name_bytes = self.number("H", "name of {} bytes")
            with self.join():
                self.put(4, "no default")
                self.put(4, "no parameters")
                self.put(name_bytes, f'"{attribute.name}"')
        self.put(start + size - self.at, "padding")

    def metadata(self, _, table_end, __):
        while self.at < table_end:
            with self.join():
                self.number("H", "record of type {}: name")
                self.put(2, "zero")
                size = self.number("I", "{} bytes")
            with self.join():
                self.number("I", "name number {}")
                self.put(size - 4, f'"{text(self.data[self.at:self.at + size - 4], "")}"')
                self.put(padded(size) - size, "padding")

    def seal(self, *_):
        self.time("time")
        self.number("Q", "checkpoint at {:x}")

    def nodes(self, _, __, end):
        with self.join():
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
        self.lines.append("  a leaf of the row index")
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
        self.lines.append("  a leaf of the ordered index")
        with self.join():
            self.number("H", "level {}")
            count = self.number("H", "slots: {}")
            self.number("H", "{} bytes of entries")
            lowest = self.number("H", "the lowest at {}")
        with self.join():
            self.number("H", "{} byte shared by all keys")
            self.put(6, "zero")
        slots = []
        for _ in range(count):
            with self.join():
                self.put(4, "head: four bytes of the key")
                slots.append((self.number("H", "entry at {}"), self.number("H", "key of {} bytes")))
        self.zeros_to(start + lowest)
        for _, key_bytes in reversed(slots):
            with self.join():
                self.put(8, f"entity {u16(self.data, self.at + 6)}, object {u32(self.data, self.at)}")
                self.put(key_bytes, "its key")

    # ------------------------------------------------------------------------------------------ the document

    def checkpoint(self, _, __, ___):
        with self.join():
            self.number("Q", "document of {} bytes")
            self.number("I", "pieces: {}")
            self.put(4, "zero")
        with self.join():
            self.put(8, "no features")
            self.put(8)
        with self.join():
            self.number("Q", "transaction {}")
            self.put(8, "tag")
            self.put(8, "time")
            self.number("Q", "recoveries: {}")
        with self.join():
            for name in ("frames: {}", "transactions: {}", "changes: {}"):
                self.number("Q", name)
        with self.join():
            self.number("Q", "may step back: {}")
            self.number("Q", "counted end {:x}")
        self.bytes_by_kind()
        with self.join():
            for _ in range(self.number("I", "1. names: {}")):
                size = self.number("H", "" if self.joined[1:] else "sizes 7 and 5")
                self.put(size, f'"{text(self.data[self.at:self.at + size], "")}"')
        with self.join():
            self.number("I", "2. schema versions: {}")
            self.number("I", "tables: {}")
            size = self.number("I", "{} bytes")
        self.put(size, "the table of the schema frame")
        for _ in range(self.number("I", "3. row indexes: {}")):
            with self.join():
                self.number("H", "entity {}")
                self.number("H", "depth {}")
                self.number("Q", "root {:x}")
                self.number("Q", "next {}")
                self.number("Q", "objects: {}")
        with self.join():
            self.number("I", "4. ordered indexes: {}")
            self.number("H", "entity {}")
            self.number("B", "unique, complete")
            for _ in range(self.number("H", "")):
                self.number("H", "attribute {}")
        with self.join():
            self.number("Q", "root at {:x}")
            self.number("Q", "entries: {}")
        with self.join():
            self.number("I", "5. frames of landmarks: {}")
            self.number("I", "landmarks: {}")
        with self.join():
            self.number("Q", "a frame at {:x}")
            self.number("Q", "its number {}")
        with self.join():
            self.number("Q", "6. horizon {}")
            self.put(16, "retention: 7 days, 2^30 bytes")
        with self.join():
            self.number("I", "hidden authors: {}")
            self.number("I", "consumers: {}")
        self.number("I", "7. extensions: {}")

    def bytes_by_kind(self):
        """The 16 sizes. Zeros that follow each other share a line."""
        kind = 0
        while kind < 16:
            last = kind
            while last < 15 and not any(self.data[self.at:self.at + 8 * (last - kind + 2)]):
                last += 1
            if last > kind:
                self.put(8 * (last - kind + 1), f"kinds {kind} to {last}")
            else:
                self.number("Q", f"kind {kind}: {{}} bytes")
            kind = last + 1
