"""Checkpoints and the indexes they name, held against what was read from the log below them."""
import struct
import unicodedata

import annals_history
from annals_parts import (VARIABLE, decode, definitions, hash64, known, need, padded, text, u16, u32, u64)

NODE, LANDMARKS_IN_NODE, MAX_OBJECT = 4096, 256, (1 << 48) - 1
MAX_TABLE = 524288 - 64                  # of a schema frame


class Bytes:
    """Reads a document from its front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "F29: a document that ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def read(self, form):
        values = struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))
        return values if len(values) > 1 else values[0]


def nodes_frame(store, f):
    """F28; remembers where the nodes stand."""
    need(f.table_end - f.offset == 72, "F28: the table of a nodes frame")
    count, zero = struct.unpack_from("<II", store.data, f.offset + 64)
    known(not zero, "F28: the table of a nodes frame")
    need(count and f.end - f.table_end == count * NODE, "F28: the nodes of a nodes frame")
    store.nodes |= {f.table_end + i * NODE for i in range(count)}
    store.nodes_before.append(f)


def checkpoint(store, f):
    """F29 to F32 for one checkpoint."""
    data = store.data
    need(f.table_end - f.offset >= 96, "F29: the table of a checkpoint")
    size, count, zero, read_features, write_features = struct.unpack_from("<QIIQQ", data, f.offset + 64)
    known(not read_features and not zero, "F36: features of a checkpoint")
    need(write_features == store.write_features, "F36: a checkpoint names other features than are declared")
    need(f.table_end == f.offset + 96 + 8 * count, "F29: the table of a checkpoint")
    offsets = list(struct.unpack_from(f"<{count}Q", data, f.offset + 96))
    pieces = store.nodes_before[len(store.nodes_before) - count:]
    need([p.offset for p in pieces] == offsets, "F29: the pieces of a checkpoint")
    document = b"".join(data[p.table_end:p.end] for p in pieces) + data[f.table_end:f.end]
    need(0 <= len(document) - size < NODE and not any(document[size:]), "F29: documentBytes")
    reader = Bytes(document[:size])
    counted_end = log_state(store, reader, f, pieces)
    names_and_schemas(store, reader)
    entities = row_indexes(store, reader)
    ordered_indexes(store, reader, entities, f)
    landmarks(store, reader, f, counted_end)
    annals_history.document(store, reader)
    annals_history.extensions(store, reader)
    need(reader.at == size, "F29: bytes behind the document")


def log_state(store, reader, f, pieces):
    need(reader.read("QQq") == (store.number, store.tag, store.time), "F29: the last transaction")
    recoveries, frames, transactions, changes, stepped, counted_end = reader.read("6Q")
    known(stepped < 2, "F29: mayStepBack")
    need((recoveries, stepped) == (store.recoveries, int(store.stepped)), "F29: recoveries or clock step")
    need(counted_end == (pieces[0].offset if pieces else f.offset), "F29: countedEnd")
    sizes = list(store.kind_bytes)
    sizes[6] -= f.offset - counted_end
    need((frames, transactions) == (len(store.frames) - len(pieces), store.transaction_count), "F29: counts of frames")
    need(changes == store.change_count, "F29: the count of changes")
    need(list(reader.read("16Q")) == sizes, "F29: frameBytes")
    return counted_end


def names_and_schemas(store, reader):
    names = [text(reader.take(reader.read("H")), "F29") for _ in range(reader.read("I"))]
    need(names == store.names, "F29: names")
    versions = [{}]
    for version in range(1, reader.read("I") + 1):
        defined, room = {}, 0
        for _ in range(reader.read("I")):
            table = reader.take(reader.read("I"))
            its_version, its_entities = definitions(table)
            need(its_version == version, "F29: schema versions")
            need(list(defined) + list(its_entities) == sorted(defined.keys() | its_entities), "F29: definitions ascend")
            need(not defined or its_entities and u32(table, 8) > room, "F29: a table with room for more definitions")
            defined |= its_entities
            room = MAX_TABLE - len(table)
        versions.append({n: e for n, e in {**versions[-1], **defined}.items() if e})
    need(versions == store.versions, "F29: schemas")


def node(store, offset, below, rule):
    need(offset in store.nodes and offset < below, rule + ": a reference that leads to no node")
    return store.data[offset:offset + NODE]


# ---------------------------------------------------------------------------------------------- the row index

def row_indexes(store, reader):
    expected = {}
    for raw, (_, newest) in store.objects.items():
        expected.setdefault(raw >> 48, {})[raw & MAX_OBJECT] = newest
    roots = [reader.read("HHQQQ") for _ in range(reader.read("I"))]
    need([r[0] for r in roots] == sorted(expected.keys() | store.next_numbers), "F29: the entities")
    for entity, depth, root, next_number, live in roots:
        words = expected.get(entity, {})
        need(1 <= depth <= 6, "F29: the depth of a row index")
        following = max([1, store.next_numbers.get(entity, 1)] + [n + 1 for n in words])
        need(next_number == following and live == sum(not w & 1 for w in words.values()), "F29: counts of objects")
        found = {}
        read_rows(store, root, depth - 1, 0, store.reached, found)
        need(found == words, "F30: a row index that differs from the log")
    return expected


def read_rows(store, offset, level, first, below, found, entries=None):
    for i, word in enumerate(struct.unpack("<512Q", node(store, offset, below, "F30"))):
        number = first + (i << 9 * level)
        word = (entries or {}).get(i, word)
        if level == 1 and word & 7 == 2:
            leaf, below_leaf, entries_of_leaf = deltas(store, word, offset)
            read_rows(store, leaf, 0, number, below_leaf, found, entries_of_leaf)
        elif word and level:
            read_rows(store, word, level - 1, number, offset, found)
        elif word:
            found[number] = word


def deltas(store, word, below):
    """The leaf below a chain of deltas, what it must be below, and the words that replace the leaf's."""
    entries, count = {}, 0
    while word & 7 == 2:
        offset, count = word - 2, count + 1
        need(count <= 16, "F30: too many deltas over a leaf")
        place = max((n for n in store.nodes if n <= offset), default=None)
        need(place is not None and offset < below and offset + 8 <= place + NODE, "F30: a delta outside of a node")
        head = u64(store.data, offset)
        size, present = head >> 56, 64 if head >> 56 >= 16 else 0
        need(size and offset + 8 + present + 8 * size <= place + NODE, "F30: the size of a delta")
        own = struct.unpack_from(f"<{size}Q", store.data, offset + 8 + present)
        indexes = [entry >> 55 for entry in own]
        need(all(a < b for a, b in zip(indexes, indexes[1:])), "F30: entries of a delta that do not ascend")
        if present:
            bits = int.from_bytes(store.data[offset + 8:offset + 72], "little")
            need(bits == sum(1 << i for i in indexes), "F30: the bits of a delta")
        for i, entry in zip(indexes, own):
            its_word = (entry & (1 << 55) - 1) >> 1 << 3 | entry & 1
            need(its_word >= NODE, "F30: an entry of a delta")
            entries.setdefault(i, its_word)
        word, below = head & (1 << 56) - 1, offset
    return word, below, entries


# ---------------------------------------------------------------------------------------------- ordered indexes

def indexes_of(entity):
    """The attributes of each index, and whether it is unique."""
    types = {a.number: a.type for a in entity.attributes}
    wanted = [((a.number,), a.flags >> 2 & 1 if a.type < 11 else 0)
              for a in entity.attributes if a.flags & 6 or a.type >= 10]
    wanted += [(numbers, flags & 1) for flags, numbers in entity.keys if all(types[n] < 11 for n in numbers)]
    found = {}
    for numbers, unique in wanted:
        found[numbers] = found.get(numbers, 0) | unique
    return list(found.items())


def ordered_indexes(store, reader, entities, f):
    schema = store.versions[-1]
    expected = [(number, *index) for number in sorted(schema) for index in indexes_of(schema[number])]
    need(reader.read("I") == len(expected), "F29: the ordered indexes")
    for entity, numbers, unique in expected:
        its_entity, flags, count = reader.read("HBH")
        its_numbers = struct.unpack(f"<{count}H", reader.take(2 * count))
        root, entries = reader.read("QQ")
        known(flags < 4, "F29: the flags of an index")
        need((its_entity, flags & 1, its_numbers) == (entity, unique, numbers), "F29: an ordered index")
        if not flags & 2:
            need(root == entries == 0, "F29: an index that is not complete")
            continue
        found = list(read_ordered(store, root, f.offset, None)) if root else []
        need(len(found) == entries, "F31: how many entries an index has")
        need(all(a < b for a, b in zip(found, found[1:])), "F31: entries that do not ascend")
        live = {n: at for n, at in entities.get(entity, {}).items() if not at & 1}
        need(found == sorted((its_key, entity << 48 | n) for n, at in live.items()
                             for its_key in keys(store, entity, numbers, at)),
             "F31: an index that differs from the rows")


def read_ordered(store, offset, below, level):
    data = node(store, offset, below, "F31")
    its_level, count, entry_bytes, lowest, prefix, *zero = struct.unpack_from("<5H3H", data)
    need(its_level < 20 and level in (None, its_level) and count and not any(zero), "F31: the header of a node")
    header, at, entries = 16 if its_level else 8, NODE, []
    for i in range(count):
        head, start, size = data[16 + 8 * i:20 + 8 * i], u16(data, 20 + 8 * i), u16(data, 22 + 8 * i)
        at -= header + size
        need(start == at >= 16 + 8 * count and size <= 256, "F31: a slot")
        its_key = data[at + header:at + header + size]
        if i or not its_level:
            need(head == (its_key[prefix:prefix + 4] + bytes(4))[:4], "F31: a head")
            fits = its_key[:prefix] == entries[-1][0][:prefix] if i > bool(its_level) else size >= prefix
            need(fits, "F31: a prefix")
        else:
            need(size == 0 == u64(data, at) and not any(head), "F31: the first entry of an inner node")
        entries.append((its_key, u64(data, at), u64(data, at + 8) if its_level else 0))
    need(at == lowest and NODE - at == entry_bytes and not any(data[16 + 8 * count:at]), "F31: the room of a node")
    if not its_level:
        yield from [e[:2] for e in entries]
        return
    for i, (its_key, object_number, child) in enumerate(entries):
        for entry in read_ordered(store, child, offset, its_level - 1):
            need(entry >= (its_key, object_number), "F31: an entry below its separator")
            need(i + 1 == count or entry < entries[i + 1][:2], "F31: an entry above its separator")
            yield entry


def keys(store, entity_number, numbers, at):
    """The keys that a row has in an index: of a list, one for each element."""
    distance = u16(store.data, at)
    entity, values, _ = store.row(at - 8 * distance, at, len(store.data), entity_number, deletion=False)
    by_number = {a.number: (a.type, values[a.name]) for a in entity.attributes}
    newest = {a.number: a for a in store.versions[-1][entity_number].attributes}
    if newest[numbers[0]].type >= 11:
        kind, value = by_number.get(numbers[0], (None, None))
        return [component(10, {"object": element}) for elements in (value or {}).values() for element in elements]
    whole = b""
    for number in numbers:
        if number in by_number:
            whole += component(*by_number[number])
        else:
            a = newest[number]
            whole += component(a.type, None if a.default is None else decode(a.type, a.default))
    if len(whole) <= 240:
        return [whole]
    h = 0
    for i in range(0, len(whole), 4096):
        h = hash64(whole[i:i + 4096], h)
    return [whole[:240] + struct.pack(">QQ", len(whole), h)]


def component(kind, value):
    if value is None:
        return b"\0"
    if kind == 1:
        return bytes([1, value])
    if kind == 2:
        return b"\1" + struct.pack(">Q", value + (1 << 63))
    if kind in (3, 6):
        bits = int(value["double" if kind == 3 else "date"], 16)
        if bits << 1 & (1 << 64) - 1 > 0x7ff << 53:
            bits = 0x7ff8 << 48
        elif bits == 1 << 63:
            bits = 0
        return b"\1" + struct.pack(">Q", bits ^ (1 << 63 if bits >> 63 == 0 else (1 << 64) - 1))
    if kind in VARIABLE:
        raw = bytes.fromhex(value["data"]) if kind == 5 else unicodedata.normalize(
            "NFC", value if kind == 4 else value["json"]).encode("utf-8")
        return b"\1" + raw.replace(b"\0", b"\0\xff") + b"\0\0"
    if kind == 7:
        return b"\1" + bytes.fromhex(value["uuid"])
    if kind == 10:
        return b"\1" + struct.pack(">Q", value["object"][0] << 48 | value["object"][1])
    return b"\1" + decimal(value["decimal"])


def decimal(value):
    if value == "nan":
        return b"\3"
    mantissa, exponent = value.lstrip("-").split("e")
    if mantissa == "0":
        return b"\1"
    digits = mantissa.rstrip("0")
    scale = int(exponent) + len(mantissa)
    pairs = digits + "0" * (len(digits) % 2)
    raw = struct.pack(">I", scale + (1 << 31)) + bytes(int(pairs[i:i + 2]) + 1 for i in range(0, len(pairs), 2)) + b"\0"
    return b"\0" + bytes(b ^ 0xff for b in raw) if value[0] == "-" else b"\2" + raw


# ---------------------------------------------------------------------------------------------- landmarks

def landmarks(store, reader, f, counted_end):
    frames, count = reader.read("II")
    found = []
    for _ in range(frames):
        at = reader.read("Q")
        need(at < f.offset and at + 72 in store.nodes, "F32: a frame of landmarks")
        raw = store.data[at + 72:at + 72 + NODE]
        found += [(u64(raw, i), u64(raw, i + 8)) for i in range(0, NODE, 16)]
    found += [reader.read("QQ") for _ in range(count)]
    need(len(found) == len({at >> 20 for at in store.frames if at < counted_end}), "F32: how many landmarks")
    for i, (offset, number) in enumerate(found):
        need(offset >> 20 == i and offset < f.offset and store.frames.get(offset) == number, "F32: a landmark")
