"""The habits of those who work on leafd (scripts/dev, scripts/setup dev): watch, debug with gdb's
printers, compile_commands.json, the hook that looks over commits."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from node import ROOT
from test_run_cluster import make_runner  # noqa: F401  pylint: disable=unused-import
from wait import wait_until

DEV = os.path.join(ROOT, "scripts", "dev")
CLEAN = {name: value for name, value in os.environ.items()
         if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "T", "NODE")}
needs_gdb = pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb (scripts/setup dev)")

# What is printed: an expression, and the text that gdb shows for it.
PRINTED = [("address", "127.0.0.1:7081"),
           ("six", "[::1]:80"),
           ("range", "ids 1001..1100"),
           ("buffer", "generation 3: 250 used of 1001..2000, next 2001..3000"),
           ("empty", "nothing was published"),
           ("row", "orders: strict, max_id 2001, step 1000..5000, deleted"),
           ("uid", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
           ("entry", "term 3: COMMAND_GRANT, 2 bytes, write 17"),
           ("nothing", "term 4: no bytes"),
           ("bytes", '5 bytes "ab\\\\x00\\\\xffz"'),
           ("*&reader", 'at 2 of 5 bytes "ab\\\\x00\\\\xffz"'),
           ("$err(-8)", '"ERR_NO_LEADER"'),
           ("$err(-999)", '"err -999"')]
PROGRAM = r"""
#include <raft.h>
#include "raft/core/entry_log.h"
#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/command.h"
#include "src/state/codec/cluster_command.h"
static struct { struct entry_block block; uint8_t data[2]; } block = {{1, 2}, {1, COMMAND_GRANT}};
struct address address = {"127.0.0.1", "7081"}, six = {"::1", "80"};
struct segment_range range = {1001, 100};
struct segment_buffer buffer = {3ULL << 32 | 250, {2001, 1001}, {1000, 1000}, 4}, empty;
struct tag_row row = {.name = "ordersX", .name_len = 6, .mode = TAG_MODE_STRICT, .max_id = 2001,
                      .step = 1000, .max_step = 5000, .deleted = true};
struct uid uid = {0xf81d4fae7dec41d0, 0xa76500a0c91e6bf6};
struct log_entry entry = {3, 17, RAFT_COMMAND, &block.block}, nothing = {.term = 4};
static uint8_t data[] = {'a', 'b', 0, 255, 'z'};
struct buf bytes = {data, 5, 5};
struct reader reader = {data, 5, 2, false};
enum err err;
enum command_type type;
enum raft_entry_type kind;
int main(void) { return 0; }
"""


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          **{"cwd": ROOT, "env": CLEAN, **options})


@needs_gdb
def test_gdb_shows_the_main_types(tmp_path):
    source = tmp_path / "shown.c"
    source.write_text(PROGRAM)
    program = str(tmp_path / "shown")
    built = run("gcc", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-iquote", ROOT, "-w", "-o", program,
                str(source))
    assert built.returncode == 0, built.stderr
    asked = [word for expression, _ in PRINTED for word in ("-ex", f"print {expression}")]
    shown = run("gdb", "-q", "-nx", "-batch", "-ex", "source scripts/gdb_printers.py",
                "-ex", "break main", "-ex", "run", *asked, program)
    lines = [line.partition(" = ")[2] for line in shown.stdout.splitlines()
             if line.startswith("$")]
    assert lines == [text.replace("\\\\", "\\") for _, text in PRINTED], shown


@needs_gdb
def test_a_node_runs_under_gdb_and_is_given_back(make_runner):  # noqa: F811
    runner = make_runner(3)
    runner.start()
    before = runner.node_pid(1)
    seen = runner.next_id(1)
    done = run(DEV, "debug", "1", runner.data, input="starti\nprint $err(-8)\nkill\nquit\n")
    assert done.returncode == 0, done
    assert "Program stopped" in done.stdout and '"ERR_NO_LEADER"' in done.stdout, done
    wait_until(lambda: answers(runner), 60, "the node serves again")
    assert runner.node_pid(1) != before and runner.next_id(1) != seen


def answers(runner):
    try:
        return bool(runner.next_id(1))
    except (OSError, AssertionError):
        return False


def test_a_cluster_that_does_not_run_is_named(tmp_path):
    done = run(DEV, "debug", "1", str(tmp_path))
    assert done.returncode == 1 and "`make run` first" in done.stderr


def test_each_file_is_compiled_as_it_is_said(tmp_path):
    path = tmp_path / "compile_commands.json"
    listed = os.path.join(ROOT, "compile_commands.json")
    kept = open(listed, encoding="utf-8").read() if os.path.exists(listed) else None
    try:
        done = run(DEV, "compile_commands.json")
        assert done.returncode == 0, done
        shutil.move(listed, path)
    finally:
        if kept is not None:
            with open(listed, "w", encoding="utf-8") as file:
                file.write(kept)
    entries = {entry["file"]: entry for entry in json.loads(path.read_text())}
    for file in ("src/base/zone.c", "cluster-tests/sim/sim.c", "src/state/codec/level.c",
                 "http/proto/tests/test_parser.c", "cluster-tests/history/main.c"):
        entry = entries[file]
        command = [*entry["arguments"], "-fsyntax-only"]
        made = run(*command, cwd=entry["directory"])
        assert made.returncode == 0, made.stderr
        assert not {"-Werror", "-DLEVEL_MAX"} & set(command)


MAKEFILE = "build/release/src/base/tests/%: src/base/tests/%.c\n\t@mkdir -p $(@D)\n" \
           "\t@cp $< $@ && chmod +x $@\n"


def test_a_save_runs_the_test_again(tmp_path):
    """In a tree of its own, whose tests are scripts."""
    os.makedirs(tmp_path / "src/base/tests")
    os.makedirs(tmp_path / "scripts")
    shutil.copy(DEV, tmp_path / "scripts/dev")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    test = tmp_path / "src/base/tests/test_a.c"
    test.write_text("#!/bin/sh\necho good\n")
    output = tmp_path / "output"
    with open(output, "wb") as file:
        watch = subprocess.Popen([sys.executable, tmp_path / "scripts/dev", "watch", "a"],
                                 stdout=file, stderr=file, env=CLEAN)
    try:
        wait_until(lambda: "test_a passed" in output.read_text(), 30, "it passes")
        assert "good" not in output.read_text()
        test.write_text("#!/bin/sh\necho bad\nexit 3\n")
        wait_until(lambda: "test_a FAILED with 3" in output.read_text(), 30, "it fails")
        assert "bad" in output.read_text()
        watch.send_signal(signal.SIGINT)
        assert watch.wait(30) == 0
    finally:
        watch.kill()
        watch.wait()
    done = run(DEV, "watch", "no_such")
    assert done.returncode == 1 and "0 files are named test_no_such.c" in done.stderr


GOOD = "/* about */\nextern int a;\n"


def test_a_commit_is_looked_over(tmp_path):
    """What is staged counts, not what lies there; a hook of somebody else's stays."""
    tree = tmp_path / "tree"
    os.makedirs(tree / "src/base")
    os.makedirs(tree / "scripts")
    for name in ("dev", "check-style", "setup", "check-raft-version"):
        shutil.copy(os.path.join(ROOT, "scripts", name), tree / "scripts")
    shutil.copy(os.path.join(ROOT, ".clang-format"), tree)

    def git(*words):
        return run("git", "-c", "user.name=a", "-c", "user.email=a@b", *words, cwd=tree)

    assert git("init", "-q").returncode == 0
    # Installed or not: the hook is made before anything is asked of apt.
    hook = tree / ".git/hooks/pre-commit"
    run("scripts/setup", "dev", cwd=tree, env={**CLEAN, "PATH": hidden_apt(tmp_path)})
    assert os.access(hook, os.X_OK)
    file = tree / "src/base/a.c"
    file.write_text(GOOD.replace("int a", "int  a"))
    git("add", "-A")
    file.write_text(GOOD)
    done = git("commit", "-qm", "one")
    assert done.returncode == 1 and "src/base/a.c:2: clang-format would change" in done.stderr
    git("add", "-A")
    file.write_text("\t")
    done = git("commit", "-qm", "one")
    assert done.returncode == 0, done
    assert git("log", "--format=%s").stdout == "one\n"
    hook.write_text("#!/bin/sh\nexit 0\n")
    said = run("scripts/setup", "dev", cwd=tree, env={**CLEAN, "PATH": hidden_apt(tmp_path)})
    assert "is another hook" in said.stdout and hook.read_text() == "#!/bin/sh\nexit 0\n"


def hidden_apt(folder):
    """A PATH on which apt-get does nothing, so that no test installs."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (place / "apt-get").chmod(0o755)
    return f"{place}:{os.environ['PATH']}"
