"""Free ports of 127.0.0.1, so that runs side by side do not collide.

A port is held by an flock on a file of its own for as long as this process lives, and is taken
only when it can be bound now. The range lies below the ones the system gives to outgoing
connections.
"""

import fcntl
import os
import random
import socket
import tempfile

FIRST_PORT = 21000
LAST_PORT = 31999

_held = []


def take_port():
    directory = os.path.join(tempfile.gettempdir(), f"leafd-test-ports-{os.getuid()}")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    start = random.randrange(FIRST_PORT, LAST_PORT + 1)
    for offset in range(LAST_PORT - FIRST_PORT + 1):
        port = FIRST_PORT + (start - FIRST_PORT + offset) % (LAST_PORT - FIRST_PORT + 1)
        handle = os.open(os.path.join(directory, str(port)), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        if can_bind(port):
            _held.append(handle)
            return port
        os.close(handle)
    raise RuntimeError("no free port")


def can_bind(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
