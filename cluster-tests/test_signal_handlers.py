"""Handlers of signals in Python, in all scripts and tools: none takes a lock.

A handler runs between two bytecodes of whatever the main thread does, of another handler too. What
takes a lock there waits for itself for ever: threading.Event.set() did, and `make run` hung when it
got two signals at once. So a handler may only do what is in ALLOWED: set a flag, send a signal on,
end the process, or raise.
"""

import ast
import os
import subprocess
import textwrap

import pytest

from node import ROOT

ALLOWED = {
    "contextlib.suppress",  # no lock in it, whatever "with" looks like
    "faulthandler.dump_traceback",  # made for it
    "list",
    "os._exit",
    "os.kill",
    "os.killpg",
    "os.write",
    "signal.Signals",
    "signal.signal",
    "sys.exit",  # raises
}
# Made to be raised.
EXCEPTIONS = {"BoundExceeded", "KeyboardInterrupt", "TimeOver"}


def python_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "scripts",
                             "cluster-tests"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.split()  # fmt: skip
    for name in listed or walk():
        path = os.path.join(ROOT, name)
        if os.path.isfile(path) and is_python(path):
            yield name


def walk():
    """A tree that is no clone."""
    for top in ("scripts", "cluster-tests"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            yield from (os.path.relpath(os.path.join(folder, name), ROOT) for name in names)


def is_python(path):
    with open(path, "rb") as file:
        return path.endswith(".py") or file.readline().startswith(b"#!/usr/bin/python3")


def handlers(tree):
    """What is given to signal.signal(), but for what Python has itself, which takes no lock, and
    what was there before."""
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "signal.signal"):
            continue
        handler = node.args[1]
        if isinstance(handler, ast.Name) and handler.id in functions:
            yield functions[handler.id]
        elif isinstance(handler, ast.Lambda):
            yield handler
        elif ast.unparse(handler) not in ("signal.SIG_IGN", "signal.SIG_DFL",
                                          "signal.default_int_handler", "previous"):
            raise AssertionError(f"what is the handler {ast.unparse(handler)}?")


def faults(tree):
    found = []
    for handler in handlers(tree):
        for node in ast.walk(handler):
            if isinstance(node, ast.Call) and ast.unparse(node.func) not in ALLOWED | EXCEPTIONS:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.withitem) and not isinstance(node.context_expr, ast.Call):
                found.append(f"with {ast.unparse(node)}")
    return found


def test_no_handler_takes_a_lock():
    looked_at = 0
    for name in python_files():
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        assert not faults(tree), f"{name}, in a handler of a signal: {faults(tree)}"
        looked_at += len(list(handlers(tree)))
    assert looked_at >= 9, "the handlers that there are were found"


@pytest.mark.parametrize(
    "text",
    [
        "stop = threading.Event()\nsignal.signal(signal.SIGTERM, lambda *_: stop.set())",
        "def f(*_):\n    with lock:\n        stopped = True\nsignal.signal(signal.SIGINT, f)",
        "def f(*_):\n    print('stopped')\nsignal.signal(signal.SIGINT, f)",
        "def f(*_):\n    log.warning('stopped')\nfor n in numbers:\n    signal.signal(n, f)",
    ],
)
def test_each_kind_of_fault_is_found(text):
    assert faults(ast.parse(textwrap.dedent(text)))
