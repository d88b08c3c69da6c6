"""Free ports of 127.0.0.1, so that runs side by side do not collide.

A port is held by an flock on a file of its own for as long as this process lives, and is taken
only when it can be bound now. The files are in one place for all runs, whatever their TMPDIR: a
port whose node has stopped for a while can be bound, too, and would then be another run's. The
range lies below the ones the system gives to outgoing connections.
"""

import fcntl
import os
import random
import socket

FIRST_PORT = 21000
LAST_PORT = 31999

_held = []


def take_port():
    return take_row(1)


def take_row(count, step=1):
    """The first of so many ports, each so far from the one before, all of them held."""
    directory = f"/tmp/leafd-test-ports-{os.getuid()}"
    os.makedirs(directory, mode=0o700, exist_ok=True)
    firsts = LAST_PORT - FIRST_PORT + 1 - (count - 1) * step
    start = random.randrange(firsts)
    for offset in range(firsts):
        first = FIRST_PORT + (start + offset) % firsts
        handles = []
        for port in range(first, first + count * step, step):
            handle = hold(os.path.join(directory, str(port)), port)
            if handle is None:
                break
            handles.append(handle)
        if len(handles) == count:
            _held.extend(handles)
            return first
        for handle in handles:
            os.close(handle)
    raise RuntimeError(f"no {count} free ports, each {step} from the one before")


def hold(path, port):
    """The lock of a port that is free; None: it is not."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if can_bind(port):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def can_bind(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
