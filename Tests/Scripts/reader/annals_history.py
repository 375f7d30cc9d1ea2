"""Consumers, cleaning and replacing: who reads the history, and what of it is still returned."""
import struct

from annals_parts import Broken, known, need, padded, text, u16

CONSUMER, CLEANING, REPLACING = 8, 10, 13
MAX_CONSUMERS, MAX_NAME = 1000, 1024
RETENTION = 7 * 24 * 3600 * 1000000, 1 << 30         # microseconds and bytes, where nothing is said


class History:
    def __init__(self, base_number):
        self.horizon = base_number
        self.retention = RETENTION
        self.hidden = {}         # name number, 0 for no author -> transactions with smaller numbers are hidden
        self.consumers = {}      # name -> the table of the newest frame; in the order in which they were registered

    def hidden_above_horizon(self):
        return [(author, before) for author, before in sorted(self.hidden.items()) if before > self.horizon + 1]

    def lines(self):
        """What a dump says at its end; nothing where there are no consumers and nothing was cleaned."""
        if not self.consumers and not self.hidden_above_horizon() and not self.horizon and self.retention == RETENTION:
            return []
        consumers = []
        for name, table in self.consumers.items():
            cursor, tag, seen, registered, process, kind = struct.unpack_from("<QQqqIH", table)
            consumers.append({
                "name": name, "kind": kind, "cursor": cursor, "tag": f"{tag:016x}", "lastSeen": seen,
                "registered": registered, "processID": process})
        hidden = [{"author": author, "before": before} for author, before in self.hidden_above_horizon()]
        return [{"horizon": self.horizon, "retention": list(self.retention), "hidden": hidden, "consumers": consumers}]


def consumer_name(table):
    """F26: the name in the table of a consumer frame, whose form is checked."""
    need(len(table) >= 40, "F26: a consumer frame")
    kind, size = u16(table, 36), u16(table, 38)
    known(kind < 8, "F26: a consumer's kind")
    need(1 <= size <= MAX_NAME, "F26: the size of a consumer's name")
    need(len(table) == padded(40 + size) and not any(table[40 + size:]), "F26: the size of a consumer frame")
    need(kind or not any(table[:36]), "F26: a consumer that is none any more")
    return text(table[40:40 + size], "F26")


def frame(store, kind, table):
    history = store.history
    if kind == CONSUMER:
        name = consumer_name(table)
        cursor, tag = struct.unpack_from("<QQ", table)
        need(cursor <= store.number, "F33: a consumer has seen what is not there")
        need(store.tags.get(cursor, tag) == tag, "F33: the tag of a consumer")
        if u16(table, 36):
            history.consumers[name] = table
        else:
            history.consumers.pop(name, None)
        need(len(history.consumers) <= MAX_CONSUMERS, "F33: too many consumers")
    elif kind == CLEANING:
        cleaning(store, table)
    elif kind == REPLACING:
        need(len(table) == 24, "F26: the size of a replacing frame")
        need(struct.unpack_from("<Q", table)[0] > store.generation, "F33: a file replaced by an older one")
    else:
        raise Broken("F26: this is no frame about history")


def cleaning(store, table):
    history = store.history
    need(len(table) >= 24, "F26: the size of a cleaning frame")
    before, _, count, zero = struct.unpack_from("<QqII", table)
    known(not zero, "F26: a cleaning frame")
    need(len(table) == 24 + 16 * count, "F26: a cleaning frame")
    entries = list(struct.iter_unpack("<IIQ", table[24:]))
    known(not any(zero for _, zero, _ in entries), "F26: the authors of a cleaning frame")
    authors = [author for author, _, _ in entries]
    need(authors == sorted(set(authors)), "F26: the authors of a cleaning frame")
    numbers = [before] + [number for _, _, number in entries]
    need(0 < max(numbers) <= store.number + 1, "F33: a cleaning frame names what is not there, or nothing")
    need(not authors or authors[-1] <= len(store.names), "F15: a name that is not defined")
    history.horizon = max(history.horizon, before - 1)
    for author, _, number in entries:
        history.hidden[author] = max(history.hidden.get(author, 0), number)


def document(store, reader):
    """F29: part 6 of a checkpoint's document."""
    history = store.history
    need(reader.read("Q") == history.horizon, "F29: the horizon")
    need(reader.read("QQ") == history.retention, "F29: the retention")
    hidden = [reader.read("IQ") for _ in range(reader.read("I"))]
    need(hidden == history.hidden_above_horizon(), "F29: hidden authors")
    tables = [reader.take(reader.read("I")) for _ in range(reader.read("I"))]
    need(tables == list(history.consumers.values()), "F29: consumers")


def extensions(store, reader):
    """F29: part 7 of a checkpoint's document. No kind is known."""
    last = 0
    for _ in range(reader.read("I")):
        kind, flags, zero, number, size = reader.read("IHHQI")
        known(flags < 2 and zero == 0, "F29: the flags of an extension")
        need(not flags or store.stops_writers(), "F36: an extension stops writers, and no feature is declared")
        need(last < kind and number <= store.number, "F29: an extension")
        reader.take(size)
        last = kind
