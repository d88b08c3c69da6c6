"""gdb_printers.py - how gdb shows leafd's main types. `make debug NODE=1` loads it; elsewhere:

    (gdb) source scripts/gdb_printers.py

    struct address          10.0.0.1:7081
    struct segment_range    ids 1001..1100
    struct segment_buffer   generation 3: 250 used of 1001..2000, next 2001..3000
    struct tag_row          orders: trend, max_id 2001, step 1000..1000000
    struct uid              f81d4fae-7dec-41d0-a765-00a0c91e6bf6
    struct log_entry        term 3: COMMAND_GRANT, 42 bytes, write 17
    struct buf, reader      the length, and the first bytes as text

An error code by its name: (gdb) print $err(-8).
"""
import gdb

SHOWN_BYTES = 64


def text_of(pointer, length):
    """Bytes as text; what cannot be shown is escaped."""
    if int(pointer) == 0 or length == 0:
        return '""'
    data = bytes(gdb.selected_inferior().read_memory(int(pointer), min(length, SHOWN_BYTES)))
    shown = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data)
    return f'"{shown}"' + ("..." if length > SHOWN_BYTES else "")


def name_of(enum, number):
    """The name of an enum's value, without knowing any of them here."""
    for field in gdb.lookup_type(f"enum {enum}").fields():
        if field.enumval == number:
            return field.name
    return f"{enum} {number}"


def ids(first, count):
    return f"ids {first}..{first + count - 1}" if count else "no ids"


def address(value):
    host, port = value["host"].string(), value["port"].string()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def segment_range(value):
    return ids(int(value["first"]), int(value["count"]))


def segment_buffer(value):
    word, ready = int(value["word"]), int(value["ready"])
    generation, used = word >> 32, word & 0xFFFFFFFF

    def slot(number):
        first = int(value["first"][number % 2])
        return f"{first}..{first + int(value['size'][number % 2]) - 1}"

    if ready == 0:
        return "nothing was published"
    after = f", next {slot(generation + 1)}" if ready == (generation + 1) & 0xFFFFFFFF else ""
    return f"generation {generation}: {used} used of {slot(generation)}{after}"


def tag_row(value):
    name = value["name"].string(length=int(value["name_len"]))
    mode = name_of("tag_mode", int(value["mode"])).removeprefix("TAG_MODE_").lower()
    deleted = ", deleted" if value["deleted"] else ""
    return (f"{name}: {mode}, max_id {int(value['max_id'])}, step {int(value['step'])}.."
            f"{int(value['max_step'])}{deleted}")


def uid(value):
    digits = f"{int(value['high']):016x}{int(value['low']):016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def log_entry(value):
    block = value["block"]
    if int(block) == 0:
        return f"term {int(value['term'])}: no bytes"
    size = int(block["len"])
    what = name_of("raft_entry_type", int(value["type"]))
    if what == "RAFT_COMMAND" and size >= 2:  # a version, and the type
        what = name_of("command_type", int(block["data"][1]))
    return f"term {int(value['term'])}: {what}, {size} bytes, write {int(value['write'])}"


def buf(value):
    size = int(value["len"])
    return f"{size} bytes {text_of(value['data'], size)}"


def reader(value):
    return f"at {int(value['at'])} of {buf(value)}"


SHOWN = {"address": address, "segment_range": segment_range, "segment_buffer": segment_buffer,
         "tag_row": tag_row, "uid": uid, "log_entry": log_entry, "buf": buf, "reader": reader}


class Printer:
    """What gdb asks for: the text of a value; what cannot be read does not end the command."""

    def __init__(self, show, value):
        self.show, self.value = show, value

    def to_string(self):
        try:
            return self.show(self.value)
        except (gdb.error, ValueError) as error:
            return f"<{error}>"


def find_printer(value):
    kind = value.type.strip_typedefs().unqualified()
    show = SHOWN.get(kind.tag) if kind.code == gdb.TYPE_CODE_STRUCT else None
    return Printer(show, value) if show else None


class Err(gdb.Function):
    """$err(CODE): the name of an error code."""

    def __init__(self):
        super().__init__("err")

    def invoke(self, code):  # pylint: disable=arguments-differ
        return name_of("err", int(code))


gdb.pretty_printers.append(find_printer)
Err()
