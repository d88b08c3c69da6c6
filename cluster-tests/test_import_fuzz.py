"""scripts/import-leaf-alloc on files that nobody wrote: whatever it is given, it ends soon, with
rows that follow the rules or with errors that say where; and what it reads of any rows is those
rows.

Everything is drawn from seeds: a failure names its own.
"""

import os
import random
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

import leaf_alloc  # noqa: E402

DUMP = os.path.join(ROOT, "cluster-tests", "fixtures", "leaf_alloc.sql")
# A file of some kilobytes takes milliseconds.
SOON_S = 5
PIECES = [
    b"'", b'"', b"`", b"\\", b"''", b"\\'", b"(", b")", b",", b";", b"--", b"-- ", b"#", b"/*",
    b"*/", b"\0", b"\n", b"\r\n", b"\t", b"\\N", b"NULL", b"INSERT INTO leaf_alloc VALUES (",
    b"CREATE TABLE leaf_alloc (", b"DELIMITER ;;", b"0x", b"_utf8mb4", b"_latin1'\xe4'", b"X'",
    b"1e999", b"-1", b"9" * 40, b"\xff", b"\xed\xa0\x80", b"a" * 50, b"biz_tag", b"max_id",
    b"\xef\xbb\xbf", b"SET NAMES latin1;\n", b"current_timestamp()",
]
LETTERS = "ab'\"\\`,;()%_-#/* \tµ订😀N0"


def examine(data, seed, form=None):
    """Rows within their rules, or errors; soon, and nothing else."""
    began = time.monotonic()
    try:
        _, rows, errors = leaf_alloc.read_rows(data, form)
        tags, wrong, _ = leaf_alloc.check_rows(rows)
    except leaf_alloc.ReadError as error:
        assert str(error), seed
    else:
        assert len(tags) + len(wrong) == len(rows), seed
        assert len({tag.name for tag in tags}) == len(tags), seed
        for tag in tags:
            assert 1 <= len(tag.name.encode()) <= leaf_alloc.NAME_BYTES, seed
            assert 0 <= tag.max_id <= leaf_alloc.MAX_ID_END, seed
            assert 1 <= tag.step <= leaf_alloc.STEP_MAX, seed
            assert len(tag.description.encode()) <= leaf_alloc.DESCRIPTION_BYTES, seed
        assert all(isinstance(text, str) and text for text in errors + wrong), seed
    assert time.monotonic() - began < SOON_S, f"seed {seed} took {time.monotonic() - began:.1f} s"


def mutate(source, data):
    """A few places changed, cut, doubled or filled with what means something."""
    data = bytearray(data)
    for _ in range(source.choice([1, 1, 2, 5, 20])):
        at = source.randrange(len(data) + 1)
        kind = source.randrange(5)
        if kind == 0:
            data[at : at + source.randrange(1, 40)] = b""
        elif kind == 1:
            data[at:at] = source.choice(PIECES)
        elif kind == 2 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif kind == 3:
            data[at:at] = data[at : at + source.randrange(1, 300)]
        else:
            data[at : at + 1] = source.choice(PIECES)
    if source.random() < 0.2:
        del data[source.randrange(len(data) + 1) :]
    return bytes(data)


def base_files():
    with open(DUMP, "rb") as file:
        dump = file.read()
    rows = b"".join(b"t%d\t%d\t10\td%d\t\\N\n" % (n, n * 7, n) for n in range(20))
    csv = b"".join(b't%d,%d,10,"d ""%d"""\n' % (n, n * 7, n) for n in range(20))
    return [dump[:6000], dump[-6000:], b"biz_tag\tmax_id\tstep\tdescription\tupdate_time\n" + rows,
            rows, csv, csv.replace(b'""', b'\\"')]


@pytest.mark.parametrize("number", range(6))
def test_files_that_were_damaged(number):
    base = base_files()[number]
    for seed in range(250):
        source = random.Random(number * 1000 + seed)
        form = source.choice([None, None, *leaf_alloc.FORMATS])
        examine(mutate(source, base), (number, seed), form)


def test_noise():
    for seed in range(500):
        source = random.Random(seed)
        data = b"".join(source.choice(PIECES) for _ in range(source.randrange(1, 200)))
        examine(data, seed, source.choice([None, *leaf_alloc.FORMATS]))


@pytest.mark.parametrize("text", [
    b"INSERT INTO leaf_alloc VALUES ('" + b"a" * 5000,
    b'INSERT INTO leaf_alloc VALUES ("' + b"a" * 5000 + b"\\",
    b"INSERT INTO leaf_alloc VALUES ('" + b"''" * 5000 + b"a" * 50,
    b"/*" * 5000,
    b"INSERT " + b"`" * 5001,
    b'a,1,1,"' + b'""' * 5000,
    b'a,"' + b"x\\" * 5000,
], ids=["quote", "double quote", "doubled", "comment", "backquote", "csv", "csv backslash"])
def test_a_file_cut_within_a_long_text(text):
    """A reader that tries every way to take it apart would never end."""
    examine(text, text[:40])


def quote_sql(text):
    """A string as mysqldump writes it."""
    for char, escaped in ("\\", "\\\\"), ("'", "\\'"), ('"', '\\"'), ("\0", "\\0"), ("\n", "\\n"):
        text = text.replace(char, escaped)
    return f"'{text}'"


def test_what_was_written_is_read():
    """Any rows, as a dump and as columns with tabs."""
    for seed in range(200):
        source = random.Random(seed)
        rows = {}
        for _ in range(source.randrange(1, 20)):
            name = "".join(source.choice(LETTERS) for _ in range(source.randrange(1, 20)))
            if "\t" not in name:
                text = "".join(source.choice(LETTERS + "\n") for _ in range(source.randrange(30)))
                rows[name] = (source.randrange(2**63), source.randrange(1, 10**9), text)
        values = ",".join(f"({quote_sql(name)},{max_id},{step},{quote_sql(text)},NULL)"
                          for name, (max_id, step, text) in rows.items())
        if rows:
            check_same(f"INSERT INTO `leaf_alloc` VALUES {values};\n", "sql", rows, seed)
            lines = "".join(f"{tabs(name)}\t{max_id}\t{step}\t{tabs(text)}\n"
                            for name, (max_id, step, text) in rows.items())
            check_same(lines, "outfile", rows, seed)


def tabs(text):
    """As INTO OUTFILE writes it."""
    for char, escaped in ("\\", "\\\\"), ("\t", "\\\t"), ("\n", "\\\n"):
        text = text.replace(char, escaped)
    return text


def check_same(file, form, rows, seed):
    _, read, errors = leaf_alloc.read_rows(file.encode(), form)
    tags, wrong, _ = leaf_alloc.check_rows(read)
    assert errors + wrong == [], seed
    assert {tag.name: (tag.max_id, tag.step, tag.description) for tag in tags} == rows, seed
