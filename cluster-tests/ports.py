"""Free ports of 127.0.0.1, so that runs side by side do not collide.

A port is held by a lock on its byte of one file for as long as this process lives, and is taken
only when it can be bound now. The file is one for all runs, whatever their TMPDIR: a port whose
node has stopped for a while can be bound, too, and would then be another run's. The range lies
below the ones the system gives to outgoing connections.
"""

import fcntl
import os
import random
import socket
import threading

FIRST_PORT = 21000
LAST_PORT = 31999

_locks = None  # the file; closing it anywhere in this process would give all back
_held = set()
_guard = threading.Lock()


def take_port():
    return take_row(1)


def take_row(count, step=1):
    """The first of so many ports, each so far from the one before, all of them held."""
    firsts = LAST_PORT - FIRST_PORT + 1 - (count - 1) * step
    start = random.randrange(firsts)
    for offset in range(firsts):
        first = FIRST_PORT + (start + offset) % firsts
        row = range(first, first + count * step, step)
        taken = []
        for port in row:
            if not hold(port):
                break
            taken.append(port)
        if len(taken) == count:
            return first
        for port in taken:
            let_go(port)
    raise RuntimeError(f"no {count} free ports, each {step} from the one before")


def hold(port):
    """True: the port is free, and is this process's from now on."""
    global _locks
    with _guard:
        if _locks is None:
            _locks = os.open(f"/tmp/leafd-test-ports-{os.getuid()}.locks",
                             os.O_CREAT | os.O_RDWR, 0o600)
        if port in _held:  # a process may lock its own bytes again
            return False
        try:
            fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        _held.add(port)
    if not can_bind(port):
        let_go(port)
        return False
    return True


def let_go(port):
    _held.discard(port)
    fcntl.lockf(_locks, fcntl.LOCK_UN, 1, port)


def can_bind(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
