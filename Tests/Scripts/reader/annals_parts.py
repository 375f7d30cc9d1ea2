"""The parts of the file format that stand by themselves: the checksum, values and schema definitions."""
import struct
from collections import namedtuple

# ---------------------------------------------------------------------------------------------- the checksum

M64 = (1 << 64) - 1
S0, S1, S2, S3 = 0x2d358dccaa6c78a5, 0x8bb84b93962eacc9, 0x4b33a62ed433d4a3, 0x4d5a2da51de1aa47
HASH_VECTORS = [
    (b"", 0, 0x93228a4de0eec5a2), (b"a", 1, 0xc5bac3db178713c4), (b"abc", 2, 0xa97f2f7b1d9b3314),
    (b"message digest", 3, 0x786d1f1df3801df4), (b"abcdefghijklmnopqrstuvwxyz", 4, 0xdca5a8138ad37c87)]


def mix(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def hash64(data, seed):
    n = len(data)
    seed ^= mix(seed ^ S0, S1)
    if n <= 16:
        a = b = 0
        if n >= 4:
            middle = (n >> 3) << 2
            a = u32(data, 0) << 32 | u32(data, middle)
            b = u32(data, n - 4) << 32 | u32(data, n - 4 - middle)
        elif n > 0:
            a = data[0] << 16 | data[n >> 1] << 8 | data[n - 1]
    else:
        p = n - n % 48
        if p:
            s1 = s2 = seed
            for r0, r1, r2, r3, r4, r5 in struct.iter_unpack("<6Q", data[:p]):
                seed, s1, s2 = mix(r0 ^ S1, r1 ^ seed), mix(r2 ^ S2, r3 ^ s1), mix(r4 ^ S3, r5 ^ s2)
            seed ^= s1 ^ s2
        while n - p > 16:
            seed = mix(u64(data, p) ^ S1, u64(data, p + 8) ^ seed)
            p += 16
        a, b = u64(data, n - 16), u64(data, n - 8)
    product = (a ^ S1) * (b ^ seed)
    return mix((product & M64) ^ S0 ^ n, (product >> 64) ^ S1)


# ---------------------------------------------------------------------------------------------- values, definitions

def reading(form):
    unpack = struct.Struct("<" + form).unpack_from
    return lambda data, at: unpack(data, at)[0]


u16, u32, u64, i16, i64 = map(reading, "HIQhq")


def padded(n):
    return n + 7 & ~7


class Broken(Exception):
    """A rule of the page does not hold."""


class Damaged(Exception):
    def __init__(self, offset, why):
        super().__init__(f"damaged at {offset}: {why}")
        self.offset = offset


class Unsupported(Exception):
    pass


def is_zero(data, start, end):
    return not any(data[start:end])


def need(condition, rule):
    if not condition:
        raise Broken(rule)


def known(condition, rule):
    """Only a later format can mean what is there, and it is no damage."""
    if not condition:
        raise Unsupported(rule)


def text(data, rule):
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise Broken(rule + ": not UTF-8") from None


PAGE, MAX_INLINE = 4096, 65536
MAX_TRANSACTION = (1 << 63) - 1
TYPES = [None, "bool", "int", "double", "string", "data", "date", "uuid", "decimal", "json", "object",
         "orderedObjects", "objects"]
SLOT_BYTES = [None, 1, 8, 8, 4, 4, 8, 16, 20, 4, 8, 4, 4]
VARIABLE = {4, 5, 9, 11, 12}
OPTIONAL, PRESERVED = 1, 8

Entity = namedtuple("Entity", "name attributes keys")      # one definition, as of one schema version or more
Attribute = namedtuple("Attribute", "number type flags name inverse default parameters")


def object_id(raw, rule="F22"):
    need(raw >> 48 and raw & (1 << 48) - 1, rule + ": an object ID with a zero part")
    return [raw >> 48, raw & (1 << 48) - 1]


def decode(kind, raw):
    """The value of a type: a slot's content, or the bytes of a variable value."""
    name = TYPES[kind]
    if name == "bool":
        need(raw[0] < 2, "F22: a bool that is neither 0 nor 1")
        return raw[0] == 1
    if name == "int":
        return i64(raw, 0)
    if name == "double":
        return {"double": f"{u64(raw, 0):016x}"}
    if name == "string":
        return text(raw, "F22")
    if name == "data":
        return {"data": raw.hex()}
    if name == "date":
        return {"date": f"{u64(raw, 0):016x}"}
    if name == "uuid":
        return {"uuid": raw.hex()}
    if name == "json":
        return {"json": text(raw, "F22")}
    if name == "object":
        return {"object": object_id(u64(raw, 0))}
    if name == "decimal":
        sign, zero, exponent, mantissa = raw[0], raw[1], i16(raw, 2), int.from_bytes(raw[4:20], "little")
        known(sign < 3 and zero == 0, "F22: the class of a decimal")
        if mantissa == 0:
            need(sign != 1 and exponent == 0, "F22: zero or not-a-number in another form")
        else:
            need(sign != 2 and mantissa % 10, "F22: a decimal in another form")
            need(exponent >= -128 and mantissa * 10 ** max(0, exponent - 127) < 1 << 128, "F22: a decimal out of range")
        return {"decimal": "nan" if sign == 2 else f"{'-' * sign}{mantissa}e{exponent}"}
    need(len(raw) % 8 == 0 and len(raw) <= 8 * 8000, "F22: the size of a list of objects")
    ids = [u64(raw, i) for i in range(0, len(raw), 8)]
    if name == "objects":
        need(all(a < b for a, b in zip(ids, ids[1:])), "F22: objects that do not ascend")
    need(len(set(ids)) == len(ids), "F22: an object twice in a list")
    return {name: [object_id(i) for i in ids]}


def definition(d):
    """An entity as a definition of a schema frame has it, or None if it removes the entity."""
    state, flags, name_bytes, count, keys, zero = struct.unpack_from("<BBHHHH", d, 6)
    known(state in (1, 2) and flags < 2 and zero == 0, "F25: the state or flags of an entity")
    at = 16 + name_bytes
    if state == 2:
        need(len(d) == 16 and not any(d[7:16]), "F25: the removal of an entity")
        return None
    need(1 <= name_bytes <= 255 and count <= 1000, "F25: an entity's name or number of attributes")
    name, attributes = text(d[16:at], "F25"), []
    for _ in range(count):
        attribute, kind, flags, target, inverse_bytes, rule, zero, name_bytes, default_bytes, parameter_bytes, zero2 \
            = struct.unpack_from("<HBBHHBBHIHH", d, at)
        name_at = at + 20
        at = name_at + name_bytes + inverse_bytes
        known(1 <= kind <= 12 and flags < 16 and rule < 4 and zero == zero2 == 0, "F25: an attribute")
        need(attribute, "F25: the number of an attribute")
        fits = target == inverse_bytes == rule == 0 if kind < 10 else target or not inverse_bytes
        need(fits, "F25: target or inverse")
        need(1 <= name_bytes <= 255 and inverse_bytes <= 255 and at <= len(d), "F25: an attribute's name")
        inverse, default = text(d[at - inverse_bytes:at], "F25"), None
        if default_bytes != 0xffffffff:
            limit = MAX_INLINE if kind in VARIABLE else SLOT_BYTES[kind]
            need(default_bytes <= limit and (kind in VARIABLE or default_bytes == limit), "F25: defaultBytes")
            need(at + default_bytes <= len(d), "F25: defaultBytes")
            default = d[at:at + default_bytes]
            decode(kind, default)
            at += default_bytes
        need(at + parameter_bytes <= len(d), "F25: parameterBytes")
        parameters = d[at:at + parameter_bytes]
        at += parameter_bytes
        label = text(d[name_at:name_at + name_bytes], "F25")
        attributes.append(Attribute(attribute, kind, flags, label, inverse, default, parameters))
    numbers, compound = {a.number for a in attributes}, []
    need(len(numbers) == len({a.name for a in attributes}) == count, "F25: two attributes of one name or number")
    for _ in range(keys):
        flags, parts = struct.unpack_from("<HH", d, at)
        key = struct.unpack_from(f"<{parts}H", d, at + 4)
        known(flags < 2, "F25: the flags of a key")
        need(key and len(set(key)) == parts and numbers.issuperset(key), "F25: a key")
        at += 4 + 2 * parts
        compound.append((flags, key))
    need(padded(at) == len(d) and not any(d[at:]), "F25: definitionBytes or padding")
    return Entity(name, attributes, compound)


def definitions(table):
    """The version that the table of a schema frame defines, and its entities by number; None for a removed one."""
    need(len(table) >= 8, "F25: the sizes of a schema frame")
    version, count, zero = struct.unpack_from("<HHI", table)
    known(zero == 0, "F25: the table of a schema frame")
    defined, at = {}, 8
    for _ in range(count):
        need(at + 16 <= len(table), "F25: more definitions than there is room for")
        size, number = u32(table, at), u16(table, at + 4)
        need(size >= 16 and size % 8 == 0 and at + size <= len(table), "F25: definitionBytes")
        need(number and number not in defined, "F25: an entity number again")
        try:
            defined[number] = definition(table[at:at + size])
        except (struct.error, IndexError):
            raise Broken("F25: a definition that does not fit its size") from None
        at += size
    need(at == len(table), "F25: bytes behind the definitions")
    return version, defined


# ---------------------------------------------------------------------------------------------- the header page

class Header:
    def __init__(self, data):
        if len(data) < PAGE or data[:8] != b"\x89ANNALS\n":
            raise Damaged(0, "F1: not an Annals store")
        self.checksum = u64(data, 120)
        if self.checksum != hash64(data[:120], 0):
            raise Damaged(0, "F1: the checksum of the header")
        read_version, write_version = u16(data, 8), u16(data, 10)
        self.write_version = write_version
        if read_version != 1:
            raise Unsupported(f"format version {read_version}")
        if u32(data, 12) != PAGE or write_version < read_version:
            raise Damaged(0, "F1: the size of the header page, or its versions")
        self.generation, self.salt = u64(data, 32), u64(data, 40)
        self.base = u64(data, 56), u64(data, 64), i64(data, 72)        # number, tag and time
        if write_version == 1 and not is_zero(data, 80, 120):
            raise Unsupported("F2: header.zero")
        unnamed = (128, 512), (576, 1024), (1088, PAGE)
        if write_version == 1 and not all(is_zero(data, a, b) for a, b in unnamed):
            raise Damaged(0, "F2: bytes of the header page that are not zero")
        if self.generation == 0 and self.base[0] or self.base[0] == 0 and self.base != (0, 0, -1 << 63):
            raise Damaged(0, "F1: a base where none can be")
        if self.base[0] > MAX_TRANSACTION:
            raise Damaged(0, "F1: the number of the base")
        self.hints = [u64(data, at + 16) for at in (512, 1024) if self.is_good_hint(data, at)]     # their durableEnd

    def is_good_hint(self, data, at):
        sequence = u64(data, at)
        return sequence > 0 and at == (1024 if sequence % 2 else 512) and is_zero(data, at + 32, at + 56) \
            and u64(data, at + 56) == hash64(data[at:at + 56], self.salt ^ at)
