"""Strict and monotonic tags: their history as check-history (docs/testing.md) reads it, and what
that says of it.

The happy path: check(...) writes one file of all operations on them, ids under keys included, runs
the program that is built beside leafd, and returns texts of violations, and of gaps that it could
not decide.
"""

import os
import subprocess

from chaos import history
from chaos.history import FAIL, MORE, OK
from strict_history import UNDECIDED, checker_path

LIMIT_S = 600


def write_history(path, records, journals, spaces):
    """spaces: {number: (name, kind)}. How many operations were written."""
    rising = {number: s for number, s in spaces.items() if s[1] in history.RISING}
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for name, kind in rising.values():
            file.write(f"tag\t{name}\t{history.RISING[kind]}\t1\n")
        for record in records:
            for op in history.read(record):
                if op.space not in rising or op.kind != rising[op.space][1]:
                    continue
                outcome = op.outcome & ~MORE
                if outcome != FAIL:
                    ended = (op.ret_ns, op.first, op.count)
                    unknown = ("-", "-", op.asked)
                    write_op(file, rising[op.space][0], op.client, op.inv_ns,
                             ended if outcome == OK else unknown)  # fmt: skip
                    count += 1
        for entry in journals:
            if entry["op"] == "keyed" and entry["outcome"] != FAIL:
                ended = (entry["ret"], entry["first"], entry["count"])
                unknown = ("-", "-", entry["count"])
                write_op(file, entry["tag"], entry["client"], entry["inv"],
                         ended if entry["outcome"] == OK else unknown, entry["key"])  # fmt: skip
                count += 1
    return count


def write_op(file, tag, client, sent, outcome, *key):
    fields = ["op", tag, f"c{client}", sent, *outcome, *key]
    file.write("\t".join(map(str, fields)) + "\n")


def check(path, records, journals, spaces):
    """Texts on what is wrong, and on what is not decided."""
    if not write_history(path, records, journals, spaces):
        return [], []
    program = checker_path()
    if not os.access(program, os.X_OK):
        return [f"no {program} to look at the tags with: build it with make"], []
    run = subprocess.run([program, "--", path], capture_output=True, text=True, timeout=LIMIT_S,
                         stdin=subprocess.DEVNULL)  # fmt: skip
    lines = (run.stdout + run.stderr).splitlines()
    undecided = [line for line in lines if line.startswith("not_decided: ")]
    if run.returncode in (0, UNDECIDED):
        return [], undecided
    return [line for line in lines if line not in undecided], undecided
