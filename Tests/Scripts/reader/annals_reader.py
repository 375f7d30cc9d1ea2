#!/usr/bin/env python3
"""Reads an Annals store file as the page "The file format" describes it, and shares nothing with the library.

    annals_reader.py STORE

prints a JSON object a line: for each rows frame of the base, for each transaction, and at last, where there are any,
the horizon, hidden authors and consumers. Members whose commit frame is missing are not looked into. Exit 0: the file
was read to its end, or to a torn tail, which is reported on standard error. 65: damage at the offset on standard
error, after what came before it. 69: written by a newer program. 64 and 66: no such use, no such file.
"""
import json
import pathlib
import struct
import sys
from collections import namedtuple

import annals_history
import annals_index
from annals_parts import (
    M64, MAX_INLINE, MAX_TRANSACTION, OPTIONAL, PAGE, PRESERVED, SLOT_BYTES, VARIABLE, Broken, Damaged, Header,
    Unsupported, decode, definitions, hash64, i64, is_zero, known, need, object_id, padded, text, u16, u32, u64)

MAX_FRAME, MAX_NODE_FRAME, MAX_INLINE_ROW = 524288, 65536, 262144
(TRANSACTION, PART, VALUE, SCHEMA, ROWS, NODES, CHECKPOINT, CONSUMER, METADATA, CLEANING, RECOVERY, SEAL,
 REPLACING) = range(1, 14)
SKIPPED = 0                              # any kind that may be skipped
MEMBERS, MEMBERS_BUT_IN_BASE = (PART, VALUE, SCHEMA), (VALUE, SCHEMA)
KINDS = ["base", "insert", "update", "delete"]
Frame = namedtuple(
    "Frame", "offset end checksum kind flags newer number mark previous body_checksum table_end stops_writers")
Large = namedtuple("Large", "bytes piece frame_bytes checksum")


class Store:
    def __init__(self, data):
        self.data = data
        header = Header(data)
        self.salt, self.hints, self.previous = header.salt, header.hints, header.checksum
        self.generation, self.write_version = header.generation, header.write_version
        self.number, self.tag, self.time = header.base
        self.tags = {0: 0, self.number: self.tag}        # of the base, and of the transactions in the file
        self.end = self.reached = PAGE   # what counts ends here; reading came so far
        self.verdict = None              # "end" or "torn tail", after the walk
        self.group_ends = {PAGE}
        self.mark, self.last_kind = 0, None
        self.names = []                  # number n at n - 1
        self.versions = [{}]             # entity number -> Entity; index 0: before there is any version
        self.types = {}                  # (entity, attribute number) -> type, ever
        self.defined = {}                # by the newest version, in the frames read so far
        self.removed = set()             # entity numbers
        self.objects = {}                # object ID -> (is deleted, what the next entry names as previous version)
        self.values = {}                 # offset of the first value frame -> Large
        self.open_value = None           # of the base: what is still missing of a value
        self.next_numbers = {}           # entity number -> as an objectNumbers record says
        self.history = annals_history.History(self.number)
        self.write_features = 0          # that are declared
        self.stepped = False             # a clock step stands behind the last transaction
        self.recoveries = 0
        self.frames = {}                 # offset -> number, of all frames read
        self.kind_bytes = [0] * 16
        self.transaction_count = self.change_count = 0
        self.last_is_copied = False
        self.nodes = set()               # offsets of nodes
        self.nodes_before = []           # the nodes frames directly before the frame at hand

    def header_checks(self, at):
        """The header at an offset, if it checks: its own checksum and its sizes."""
        if at + 64 > len(self.data):
            return None
        checksum, size, kind, flags, zero, number, mark, previous, _, body, table, zero2 = \
            struct.unpack_from("<QIBBHQQQQQII", self.data, at)
        if size < 64 or size > MAX_FRAME or size % 8 or table % 8 or table > size - 64 \
                or checksum != hash64(self.data[at + 8:at + 64], self.salt ^ at):
            return None
        is_skipped = kind > 13 and flags in (2, 3, 6, 7)
        newer = not (is_skipped or 1 <= kind <= 13 and flags < 2) or zero or zero2
        stops_writers = flags > 3
        if is_skipped and not newer:
            kind, flags = SKIPPED, flags & 1
        return Frame(
            at, at + size, checksum, kind, flags, newer, number, mark, previous, body, at + 64 + table, stops_writers)

    def frame(self, at):
        """The good frame of the chain at an offset (F4 to F7), or None."""
        f = self.header_checks(at)
        if f and f.newer:
            raise Unsupported(f"frame kind {f.kind}, flags {f.flags} at {at}")
        if f is None and self.is_impossible(at):
            raise Damaged(at, "F6: a header that checks and has no possible size")
        if f is None or f.previous != self.previous or f.end > len(self.data) \
                or u64(self.data, at + 40) != hash64(self.data[at + 64:f.table_end], self.salt) \
                or f.body_checksum != hash64(self.data[f.table_end:f.end], self.salt ^ M64):
            return None
        return f

    def is_impossible(self, at):
        """Whether a header stands there whose checksum is right; its sizes are not."""
        return at + 64 <= len(self.data) and u64(self.data, at) == hash64(self.data[at + 8:at + 64], self.salt ^ at)

    def stops_writers(self):
        """Whether a program that knows only this format would write nothing anyway."""
        return self.write_features or self.write_version > 1

    def is_in_base(self):
        return self.generation > 0 and self.transaction_count == 0

    def may_hold_rows(self):
        """Whether rows without history may stand here: in the base, and behind transactions that compaction copied."""
        return self.is_in_base() or self.last_is_copied

    def transactions(self):
        """Walks all frames, gives the base's rows and the transactions, and comes to a verdict or raises Damaged or
        Unsupported."""
        members = []
        while f := self.frame(self.reached):
            try:
                based = f.kind in MEMBERS_BUT_IN_BASE and self.is_in_base() or f.kind == VALUE and self.may_hold_rows()
                need(f.flags or f.kind not in MEMBERS or based, "F8: a member frame without its flag")
                need(not f.flags or f.kind in (*MEMBERS, CONSUMER, SKIPPED), "F8: this kind cannot be a member")
                need(f.kind not in (NODES, CHECKPOINT) or f.end - f.offset <= MAX_NODE_FRAME, "F6: frameBytes")
                need(f.flags or f.kind == TRANSACTION or not members, "F9: a frame between members and commit frame")
                may_stop = not f.stops_writers or self.stops_writers()
                need(may_stop, "F36: a frame stops writers, and no feature is declared")
                own = f.flags or f.kind == TRANSACTION
                need(f.number == self.number + own, "F11: frame.number")
                need(f.kind != TRANSACTION or f.number <= MAX_TRANSACTION, "F11: frame.number")
                need(f.mark >= self.mark and f.mark in self.group_ends, "F10: the durable mark")
                need(f.kind != SEAL or f.mark == f.offset, "F10: the mark of a seal")
                need(not self.open_value or (f.kind == VALUE and not f.flags), "F24: a value that is not complete")
                done = None
                if f.flags:
                    members.append(f)
                elif f.kind == TRANSACTION:
                    done = self.transaction(members, f)
                    members = []
                else:
                    done = self.standalone(f)
            except Broken as broken:
                raise Damaged(f.offset, broken) from None
            self.frames[f.offset] = f.number
            self.kind_bytes[f.kind] += f.end - f.offset
            self.transaction_count += f.kind == TRANSACTION
            if f.kind != NODES:
                self.nodes_before = []
            self.mark, self.previous, self.reached, self.last_kind = f.mark, f.checksum, f.end, f.kind
            if not f.flags:
                self.end = f.end
                self.group_ends.add(f.end)
            if done:
                yield done
        self.verdict = self.judge(self.end, self.reached)
        if self.open_value:
            raise Damaged(self.end, "F24: the base ends in the middle of a value")

    def judge(self, x, y):
        """What the place is where what counts ends, and the place where reading stopped."""
        for durable_end in self.hints:
            if durable_end > x:
                raise Damaged(y, f"a hint says that all below {durable_end} was durable")
        stop = len(self.data.rstrip(b"\0"))
        for at in range(y, stop, 8):
            if at + 64 <= len(self.data) and x < u64(self.data, at + 24) <= at and self.header_checks(at):
                raise Damaged(y, f"the frame at {at} says that all below {u64(self.data, at + 24)} was durable")
        return "end" if stop <= y and x == y else "torn tail"

    def standalone(self, f):
        """Takes a frame that is no part of a transaction; gives what a rows frame holds."""
        data, table = self.data, self.data[f.offset + 64:f.table_end]
        if f.kind == ROWS:
            need(self.may_hold_rows(), "F8: a rows frame behind a transaction that compaction did not copy")
            need(len(table) >= 8, "F17: the table of a rows frame")
            known(u32(table, 4) == 0, "F17: the table of a rows frame")
            changes = self.changes(f, f.offset + 72, u32(table, 0), set(), base=True)
            return {"base": self.number, "tag": f"{self.tag:016x}", "time": self.time, "changes": changes}
        if f.kind in (CONSUMER, CLEANING, REPLACING):
            need(f.table_end == f.end, "F26: a frame with a body")
            annals_history.frame(self, f.kind, table)
        elif f.kind == VALUE:
            self.open_value = self.value_piece(f, self.open_value)
        elif f.kind == SCHEMA:
            self.schema_version([f], in_base=True)
        elif f.kind == METADATA:
            need(f.table_end == f.end, "F26: a metadata frame with a body")
            at = 0
            while at < len(table):
                need(at + 8 <= len(table), "F26: a metadata record")
                known(1 <= u16(table, at) <= 5 and u16(table, at + 2) == 0, "F26: a metadata record")
                kind, size, start = u16(table, at), u32(table, at + 4), at + 8
                content, at = table[start:start + size], start + padded(size)
                need(at <= len(table) and not any(table[start + size:at]), "F26: the size of a metadata record")
                self.metadata(kind, content)
        elif f.kind in (RECOVERY, SEAL):
            need(len(table) == (24 if f.kind == RECOVERY else 16) and f.table_end == f.end, "F26: the frame's size")
            need(f.kind == RECOVERY or u64(table, 8) < f.offset, "F26: a seal names a checkpoint above itself")
            self.recoveries += f.kind == RECOVERY
        elif f.kind == NODES:
            annals_index.nodes_frame(self, f)
        elif f.kind == CHECKPOINT:
            annals_index.checkpoint(self, f)
        return None

    def metadata(self, kind, content):
        if kind == 1:
            need(5 <= len(content) <= 4 + 1024, "F26: the size of a name")
            name = text(content[4:], "F26")
            is_next = u32(content, 0) == len(self.names) + 1 <= 65535
            need(is_next and name not in self.names, "F15: name numbers count up")
            self.names.append(name)
        elif kind == 2:
            need(len(content) == 16, "F26: the size of a clock step")
            need(i64(content, 0) == self.time, "F12: a clock step names another time than the last")
            need(i64(content, 8) < self.time - 3_600_000_000, "F12: a clock step of an hour or less")
            self.stepped = True
        elif kind == 3:
            need(len(content) == 10, "F26: the size of objectNumbers")
            following, entity = u64(content, 0), u16(content, 8)
            need(entity and 2 <= following <= 1 << 48, "F26: objectNumbers")
            self.next_numbers[entity] = max(following, self.next_numbers.get(entity, 0))
        elif kind == 4:
            need(len(content) == 16, "F26: the size of a retention")
            self.history.retention = u64(content, 0), u64(content, 8)
        else:
            need(len(content) == 16, "F26: the size of features")
            known(not u64(content, 0), "F36: features for readers")
            self.write_features |= u64(content, 8)

    def name(self, number):
        need(number <= len(self.names), "F15: a name that is not defined")
        return self.names[number - 1] if number else None

    def transaction(self, members, commit):
        data, start = self.data, (members or [commit])[0].offset
        schemas = [f for f in members if f.kind == SCHEMA]
        consumers = [f for f in members if f.kind == CONSUMER]
        need(schemas == members[:len(schemas)], "F16: a schema frame behind others of its transaction")
        if schemas:
            self.schema_version(schemas)
        self.value_frames(members)
        changes, seen, first, common = [], set(), 0, None
        for f in [f for f in members if f.kind == PART] + [commit]:
            need(f.table_end - f.offset >= 128, "F13: no room for the transaction's record")
            (tag, its_time, its_start, its_total, count, process_id, author, context, process, flags, version,
             its_first) = struct.unpack_from("<QqQQIIIIIHHQ", data, f.offset + 64)
            if flags > 7:
                raise Unsupported(f"transaction flags {flags} at {f.offset}")
            its_common = its_time, its_start, process_id, author, context, process, version, flags & 2
            common = common or its_common
            need(its_common == common, "F13: the frames of a transaction differ")
            need(its_start == start and its_first == first, "F13: start or firstChange")
            need(f is commit or tag == its_total == flags & 5 == 0, "F13: a part with a tag, a total or a flag")
            need(flags & 6 != 4, "F13: changes are left out of a transaction that compaction did not copy")
            need(not flags & 2 or self.generation, "F13: a copied transaction in generation 0")
            changes += self.changes(f, f.offset + 128, count, seen)
            first += count
        need(its_total == first, "F13: totalChanges")
        need(self.stepped or its_time > self.time, "F12: times rise")
        need(version == len(self.versions) - 1, "F16: transaction.schemaVersion")
        need((flags & 1) == bool(schemas), "F16: the flag of a transaction that changes the schema")
        if not flags & 2:
            seed = hash64(struct.pack("<QQQ", self.tag, commit.previous, commit.body_checksum), 0)
            need(tag == hash64(data[commit.offset + 72:commit.table_end], seed), "F14: the tag")
        result = {
            "transaction": commit.number, "tag": f"{tag:016x}", "time": its_time, "author": self.name(author),
            "context": self.name(context), "process": self.name(process), "processID": process_id,
            "schemaVersion": version, "changes": changes}
        for f in consumers:
            need(f.table_end == f.end, "F26: a consumer frame with a body")
            annals_history.frame(self, CONSUMER, data[f.offset + 64:f.table_end])
        self.number, self.tag, self.time, self.stepped = commit.number, tag, its_time, False
        self.tags[commit.number] = tag
        self.last_is_copied = bool(flags & 2)
        return result

    def value_frames(self, members):
        value = None
        for f in members:
            need(f.kind == VALUE or not value, "F24: a value that is not complete")
            if f.kind == VALUE:
                value = self.value_piece(f, value)
        need(not value, "F24: a value that is not complete")

    def value_piece(self, f, value):
        """Takes one more piece; `value` is where the value begins and how much of it was read, None behind a whole
        one."""
        data = self.data
        need(f.table_end - f.offset == 96, "F24: the table of a value frame")
        size, its_position, its_first, piece, zero = struct.unpack_from("<QQQII", data, f.offset + 64)
        if not value:
            value = f.offset, 0
            need(0 < size <= 1 << 40, "F24: the size of a value")
            self.values[f.offset] = Large(size, piece, f.end - f.offset, f.checksum)
        first, position = value
        whole = self.values[first]
        known(not zero, "F24: the table of a value frame")
        need((size, its_first, its_position) == (whole.bytes, first, position), "F24: a piece out of place")
        need(piece == min(whole.piece, whole.bytes - position) > 0, "F24: the size of a piece")
        need(f.end - f.table_end == padded(piece) and is_zero(data, f.table_end + piece, f.end),
             "F24: the body of a value frame")
        position += piece
        return (first, position) if position < whole.bytes else None

    def large(self, reference):
        offset, size, checksum = struct.unpack("<QQQ", reference)
        value = self.values.get(offset)
        need(value and (value.bytes, value.checksum) == (size, checksum), "F23: a reference that leads to no value")
        pieces = []
        for position in range(0, size, value.piece):
            body = offset + position // value.piece * value.frame_bytes + 96
            pieces.append(self.data[body:body + min(value.piece, size - position)])
        return b"".join(pieces)

    def schema_version(self, frames, in_base=False):
        """Takes the frames of a version together; in the base, where each counts by itself, one more of the newest
        version."""
        version, before, defined = len(self.versions), self.versions[-1], {}
        for f in frames:
            need(f.table_end == f.end, "F25: the sizes of a schema frame")
            its_version, its_entities = definitions(self.data[f.offset + 64:f.table_end])
            need(its_entities or f is frames[0], "F25: a further frame without definitions")
            if in_base and its_version == version - 1 > 0:
                need(its_entities, "F25: a further frame without definitions")
                version, before, defined = its_version, self.versions[-2], self.defined
                del self.versions[-1]
            need(its_version == version, "F16: a new version is one more than the last")
            for number, entity in its_entities.items():
                need(number not in defined and number not in self.removed, "F25: an entity number again")
                defined[number] = entity
                self.as_before(number, entity, before.get(number))
        now = {number: e for number, e in {**before, **defined}.items() if e}
        need(len({e.name for e in now.values()}) == len(now), "F25: two entities of one name")
        self.removed |= {number for number, e in defined.items() if e is None}
        self.versions.append(now)
        self.defined = defined

    def as_before(self, number, entity, before):
        need(entity or before, "F25: an entity is removed that does not exist")
        numbers_before = {a.number for a in before.attributes} if before else set()
        for a in entity.attributes if entity else []:
            need(a.number in numbers_before or (number, a.number) not in self.types, "F25: an attribute number again")
            need(self.types.setdefault((number, a.number), a.type) == a.type, "F25: an attribute of another type")

    def changes(self, f, at, count, seen, base=False):
        """The entries of a frame, which begin at an offset, with their rows. Takes the objects' history along."""
        data, next_row, result = self.data, f.table_end, []
        self.change_count += count
        for _ in range(count):
            entry = at
            need(at + 16 <= f.table_end, "F13: more changes than there is room for")
            raw, row_at, kind, shape, zero = struct.unpack_from("<QIBBH", data, at)
            words, has_previous = shape & 31, shape >> 7
            known(kind < 4 and not shape & 0x60 and not zero, "F17: an entry's kind or shape")
            need(words <= 16, "F17: an entry's shape")
            need((kind == 0) == base, "F17: kind base belongs to rows frames")
            at += 16 + 8 * has_previous + 8 * words
            need(at <= f.table_end, "F17: an entry that does not fit the table")
            previous = u64(data, entry + 16) if has_previous else None
            bits = int.from_bytes(data[at - 8 * words:at], "little")
            need(not words or bits >> 64 * (words - 1), "F17: the last word of an attribute set is zero")
            need(bool(words) == (kind == 2), "F17: only an update has an attribute set")
            need(row_at or kind == 3, "F17: no row")
            entity_number, object_number = object_id(raw, "F17")

            need(raw not in seen, "F19: an object twice in a transaction")
            seen.add(raw)
            deleted, newest = self.objects.get(raw, (True, None))
            need(deleted == (kind < 2), "F18: the order of insert, update and delete")
            need(previous == newest and not (base and newest), "F18: the previous version")

            entity, values, attributes = self.versions[-1].get(entity_number), None, []
            if row_at:
                need(f.offset + row_at == next_row, "F20: rows in the order of their entries, without gaps")
                entity, values, row_bytes = self.row(entry, next_row, f.end, entity_number, deletion=kind == 3)
                attributes = entity.attributes
                need(bits >> len(attributes) == 0, "F21: an attribute set with attributes that do not exist")
                next_row += padded(row_bytes)
            self.objects[raw] = (kind == 3, entry + 1 if kind == 3 else f.offset + row_at)
            result.append({
                "kind": KINDS[kind], "entity": entity.name if entity else "?", "object": object_number,
                "attributes": [a.name for i, a in enumerate(attributes) if bits >> i & 1], "row": values})
        need(at == f.table_end, "F13: bytes behind the entries")
        need(next_row == f.end, "F20: the rows do not fill the body")
        return result

    def row(self, entry, start, limit, entity_number, deletion):
        need(start + 8 <= limit, "F20: a row that does not fit the body")
        distance, version, size = struct.unpack_from("<HHI", self.data, start)
        need(distance * 8 == start - entry, "F20: a row that does not lead back to its entry")
        need(0 < version < len(self.versions), "F21: an unknown schema version")
        entity = self.versions[version].get(entity_number)
        need(entity, "F21: an entity that this schema version does not have")
        count = len(entity.attributes)
        presence_at = 8 + sum(SLOT_BYTES[a.type] for a in entity.attributes)
        begin = variable = presence_at + (count + 7) // 8
        need(size >= begin and start + padded(size) <= limit, "F21: rowBytes")
        need(is_zero(self.data, start + size, start + padded(size)), "F20: padding that is not zero")
        row, values, at = self.data[start:start + size], {}, 8
        presence = int.from_bytes(row[presence_at:begin], "little")
        need(presence >> count == 0, "F21: presence bits left over")
        for i, a in enumerate(entity.attributes):
            slot, present = row[at:at + SLOT_BYTES[a.type]], presence >> i & 1
            at += SLOT_BYTES[a.type]
            need(present or deletion or a.flags & OPTIONAL, "F22: a value that is not optional is absent")
            need(not present or not deletion or a.flags & PRESERVED, "F17: a deletion keeps what is not preserved")
            if a.type in VARIABLE:
                end, is_large = u32(slot, 0) & 0x7fffffff, u32(slot, 0) >> 31
                need(begin <= end <= size and end - begin <= MAX_INLINE, "F21: the end of a value")
                need(present or (end == begin and not is_large), "F21: an absent value that is not empty")
                content, begin = row[begin:end], end
                if is_large:
                    need(len(content) == 24, "F21: the size of a reference")
                    need(a.type < 11, "F22: a list of objects that does not stand in its row")
                    content = self.large(content)
                value = decode(a.type, content) if present else None
                if is_large:
                    value = {"large": len(content), "hash": f"{hash64(content, 0):016x}"}
            else:
                need(present or not any(slot), "F21: the slot of an absent value is not zero")
                value = decode(a.type, slot) if present else None
            values[a.name] = value
        need(begin == size and size - variable <= MAX_INLINE_ROW, "F21: rowBytes")
        return entity, values, size


def show(record):
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")


def main(arguments):
    if len(arguments) != 1:
        print("usage: annals_reader.py STORE", file=sys.stderr)
        return 64
    try:
        data = pathlib.Path(arguments[0]).read_bytes()
        store = Store(data)
        for transaction in store.transactions():
            show(transaction)
        if store.history.lines():
            show(store.history.lines()[0])
    except OSError as error:
        print(f"annals_reader: {error}", file=sys.stderr)
        return 66
    except Damaged as damaged:
        print(damaged, file=sys.stderr)
        return 65
    except Unsupported as unsupported:
        print(f"unsupported: {unsupported}", file=sys.stderr)
        return 69
    finally:
        sys.stdout.flush()
    if store.verdict != "end":
        print(f"{store.verdict} at {store.end}", file=sys.stderr)
    elif store.last_kind == SEAL and len(data) != store.end + PAGE:
        print(f"F27: a sealed file of {len(data)} bytes whose last frame ends at {store.end}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
