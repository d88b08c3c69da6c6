"""What the clients saw: one record of fixed size for each range of ids, or for each other answer.

The happy path: every client thread has a Writer; the judge reads the files of all with read(). A
request that was answered with several ranges has one record for each, and all but the first carry
MORE. A request that was never answered has ret_ns 0.

A hundred million ids in ranges of a hundred are a million records, 48 MB.
"""

import os
import struct
import threading
from collections import namedtuple

RECORD = struct.Struct("<QQQIIHHHHHBBBxxx")
READ_RECORDS = 4096

Op = namedtuple(
    "Op", "inv_ns ret_ns first count asked wait_ms client space status node kind outcome code"
)

# STRICT_KEY: strict or monotonic ids under a key. The ids stand in the journal, since several
# answers have them.
SEGMENT, SNOWFLAKE, STRICT, ADMIN, READ, WORKER, STRICT_KEY, MONOTONIC = range(8)
KIND_NAMES = ["segment", "snowflake", "strict", "admin", "read", "worker", "strict-key",
              "monotonic"]  # fmt: skip
ID_KINDS = (SEGMENT, SNOWFLAKE, STRICT, MONOTONIC)
# Their ids rise over all nodes.
RISING = {STRICT: "strict", MONOTONIC: "monotonic"}

# ok: as asked. fail: certainly nothing was done. unknown: it may have been done, now or later.
OK, FAIL, UNKNOWN = range(3)
MORE = 0x80

# What went wrong without an answer, then the codes of answers in the order they are met with.
NONE, REFUSED, LOST, SILENT, GARBLED = range(5)
CODES = ["", "(refused)", "(connection lost)", "(no answer)", "(not HTTP)"] + [
    "bad_request", "bad_tag", "bad_count", "bad_json", "unknown_tag", "unknown_worker", "no_route",
    "method_not_allowed", "too_slow", "would_repeat", "exhausted", "not_contiguous", "conflict",
    "fenced", "no_worker_id", "body_too_large", "internal_error", "no_leader", "timeout",
    "overloaded", "disk_full", "clock_backwards", "clock_skew", "window_expired", "disabled",
    "shutting_down", "epoch_exhausted", "in_progress", "bad_key", "idempotency_conflict",
    "mode_changing", "idempotency_full",
]  # fmt: skip
OTHER = len(CODES)
CODES.append("(other)")
CODE_NUMBERS = {name: number for number, name in enumerate(CODES)}


def code_number(name):
    return CODE_NUMBERS.get(name, OTHER)


class Writer:
    """A file of records, shared by the threads of a process."""

    def __init__(self, path):
        self.file = open(path, "ab", buffering=1 << 16)
        self.lock = threading.Lock()

    def add(self, *fields):
        """The fields of Op in order."""
        with self.lock:
            self.file.write(RECORD.pack(*fields))

    def flush(self):
        with self.lock:
            self.file.flush()

    def close(self):
        with self.lock:
            self.file.close()


def read(path):
    """All records of a file, in the order they were written. A torn end is an error: the process
    that wrote it was killed, and what it saw is not known."""
    size = os.path.getsize(path)
    if size % RECORD.size:
        raise ValueError(f"{path} ends within a record")
    with open(path, "rb") as file:
        while data := file.read(RECORD.size * READ_RECORDS):
            yield from map(Op._make, RECORD.iter_unpack(data))
