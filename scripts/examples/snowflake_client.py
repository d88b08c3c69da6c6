#!/usr/bin/python3
"""snowflake_client.py - a generator of snowflake ids with a worker id from leafd's registry.

    snowflake_client.py --count 5 --name billing-1 --url http://127.0.0.1:8081
    snowflake_client.py --count 5 --name billing-1 --url https://leafd.example:8081 \\
        --token-file /etc/billing/leafd.token --ca-file /etc/billing/ca.pem

Take it as a pattern for a generator of your own: the ids are made here, in your process, and leafd
is asked only now and then. A token (role workers) comes from a file or from LEAFD_TOKEN: what
stands in a command line, everybody on the machine can read. One rule makes the ids unique, whatever
clocks, crashes and networks do:

    An id may carry a time t only if from_ms < t <= until_ms of the window that was granted.

The registry never grants the same time of the same worker id twice, so two generators that keep
the rule cannot make the same id. It is a rule about the number in the id, not about the moment at
which it is made: a process that is paused between the check and the use does no harm.

The happy path: acquire a worker id; make ids; renew the window at a third of its length; release
the worker id with the last time used, so that the next start need not wait for the window's end.

Failure modes: a renewal that fails is tried again, and ids go on until the window is over. Fenced
off (somebody released the worker id, or another process took the name): the end at once. So are no
token, an unknown one, one without the role, and one whose share of worker ids is held (401, 403,
429), with what leafd says. A clock that is set back is waited for. Killed: what was granted stays
used up, and the next start under this name waits until the old window is over. Threads: one; with
several, put a lock around next_id(), or give each thread a Lease with a name of its own.
"""
import argparse
import http.client
import json
import os
import random
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request

# The layout of the ids: the cluster's own, so that leafd can decode them (docs/snowflake.md).
EPOCH_MS = 1288834974657
TIME_BITS, WORKER_BITS, SEQUENCE_BITS = 41, 10, 12

RANDOM_START = 100  # a millisecond begins at a random sequence below: the low bits spread evenly
ACQUIRE_PATIENCE_S = 30  # how long a start waits for a cluster without a leader
RETRY_S = 0.5
REQUEST_TIMEOUT_S = 5


class WindowOver(Exception):
    """There is no time left that may be used."""


class Generator:
    """The pure part: no network, and the clock is a parameter. One thread at a time."""

    def __init__(self, worker_id, from_ms, until_ms, wall_ms):
        if worker_id >> WORKER_BITS:
            raise ValueError(f"worker id {worker_id} does not fit into {WORKER_BITS} bits")
        self.worker_id = worker_id
        self.until_ms = until_ms
        self.wall_ms = wall_ms  # callable: Unix time in milliseconds
        # The highest time used. from_ms itself belongs to the holder before.
        self.last_ms = max(from_ms, EPOCH_MS)
        self.sequence = 1 << SEQUENCE_BITS  # next one of last_ms: none is left

    def extend(self, until_ms):
        """A renewal was acknowledged."""
        self.until_ms = max(self.until_ms, until_ms)

    def next(self):
        """(id, 0), or (None, milliseconds to wait before the next try). WindowOver when the clock
        is past the window."""
        now = self.wall_ms()
        if now > self.until_ms or now - EPOCH_MS >> TIME_BITS > 0:
            raise WindowOver(f"the clock says {now}, and times up to {self.until_ms} are granted")
        if now > self.last_ms:
            self.last_ms, self.sequence = now, random.randrange(RANDOM_START)
        elif self.sequence >> SEQUENCE_BITS:
            # This millisecond is used up, or the window begins later: only the clock can help.
            return None, self.last_ms - now + 1
        # A clock that was set back comes here too, while last_ms has sequences left.
        number = (self.last_ms - EPOCH_MS) << (WORKER_BITS + SEQUENCE_BITS)
        number |= self.worker_id << SEQUENCE_BITS | self.sequence
        self.sequence += 1
        return number, 0


class Refused(Exception):
    """leafd answered with an error."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body.get('code', '?')}: {body.get('message', '')}")
        self.status = status


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """leafd never redirects, and a token is for nobody else."""

    def redirect_request(self, *_):
        return None


class Registry:
    """Worker ids of a cluster, asked of one node. ca_file: who signs its certificate; None: those
    whom this machine trusts."""

    def __init__(self, url, token=None, ca_file=None):
        self.url = url.rstrip("/") + "/api/workers"
        self.headers = {"Content-Type": "application/json"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
        tls = ssl.create_default_context(cafile=ca_file)  # it checks the name, too
        self.http = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # leafd is not behind a proxy
            urllib.request.HTTPSHandler(context=tls), NoRedirect)

    def call(self, method, path, body):
        """One request; the reply's JSON. Refused, or OSError when there was no answer."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), self.headers,
                                         method=method)
        try:
            with self.http.open(request, timeout=REQUEST_TIMEOUT_S) as reply:
                return json.loads(reply.read() or "{}")
        except urllib.error.HTTPError as error:
            text = error.read()
            raise Refused(error.code, json.loads(text) if text.startswith(b"{") else {}) from None
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"no proper answer: {error!r}") from None


def read_token(path):
    """The token in a file, or in LEAFD_TOKEN; None: there is none. ValueError: it is no token."""
    if path is None:
        token = os.environ.get("LEAFD_TOKEN")
        return token if token else None
    with open(path, encoding="ascii", errors="replace") as file:
        token = file.read().strip()
    if not token or not token.isprintable() or " " in token or "\ufffd" in token:
        raise ValueError(f"{path} must hold one token, and nothing else")
    return token


def note(text):
    print(f"snowflake_client: {text}", file=sys.stderr)


class Lease:
    """A worker id of the registry while this process holds it."""

    def __init__(self, registry, name, window_ms):
        self.registry = registry
        self.name = name
        self.window_ms = window_ms
        self.renew_at = 0.0  # by the monotonic clock: no step of the wall clock moves it
        self.generator = None
        self.lost = False  # fenced off

    def acquire(self):
        """Ask until the cluster grants a worker id. Asking again after a lost reply is safe: a
        grant that nobody heard of is skipped, never handed out twice."""
        body = {"name": self.name, "address": os.uname().nodename, "window_ms": self.window_ms}
        give_up = time.monotonic() + ACQUIRE_PATIENCE_S
        while True:
            try:
                grant = self.registry.call("POST", "", body)
                break
            except (OSError, Refused) as error:
                if getattr(error, "status", 503) != 503 or time.monotonic() > give_up:
                    raise
                note(f"no worker id yet, asking again: {error}")
                time.sleep(RETRY_S)
        self.epoch = grant["epoch"]
        self.generator = Generator(grant["worker_id"], grant["from_ms"], grant["until_ms"],
                                   lambda: time.time_ns() // 1000000)
        self.renew_at = time.monotonic() + self.window_ms / 3000
        note(f"worker id {grant['worker_id']}, epoch {self.epoch}, times above {grant['from_ms']} "
             f"up to {grant['until_ms']}")

    def renew(self):
        """Extend the window; True if that went well. A failure is no reason to stop while the
        window lasts, except to be fenced off: another process may have the worker id soon."""
        body = {"epoch": self.epoch, "window_ms": self.window_ms,
                "last_timestamp_ms": self.generator.last_ms}
        try:
            reply = self.registry.call("PUT", f"/{self.generator.worker_id}", body)
        except (OSError, Refused) as error:
            if getattr(error, "status", 0) in (404, 409):
                self.lost = True
                raise
            note(f"the window was not renewed, trying again: {error}")
            self.renew_at = time.monotonic() + RETRY_S
            return False
        self.generator.extend(reply["until_ms"])
        self.renew_at = time.monotonic() + self.window_ms / 3000
        return True

    def release(self):
        """Give the worker id back; after this no id may be made. last_ms is the highest time used:
        what is above it is free for the next holder at once."""
        if self.generator is None or self.lost:
            return
        body = {"epoch": self.epoch, "last_timestamp_ms": self.generator.last_ms}
        try:
            self.registry.call("DELETE", f"/{self.generator.worker_id}", body)
        except (OSError, Refused) as error:
            note(f"not released, the next start may have to wait for the window's end: {error}")


def next_id(lease):
    """The next id, waiting where that is needed."""
    told = False
    while True:
        if time.monotonic() >= lease.renew_at:
            lease.renew()
        try:
            number, wait_ms = lease.generator.next()
        except WindowOver:
            # The process slept past its window, or no renewal went well: the cluster decides.
            if not lease.renew():
                raise
            number, wait_ms = lease.generator.next()
        if number is not None:
            return number
        if wait_ms > 1000 and not told:
            note(f"waiting for the clock, {wait_ms} ms")
            told = True
        time.sleep(min(wait_ms, 100) / 1000)  # short: the window is to be renewed meanwhile


def main():
    parser = argparse.ArgumentParser(description="make snowflake ids with a worker id from leafd")
    parser.add_argument("--count", type=int, default=10, help="ids to make (10)")
    parser.add_argument("--name", required=True, help="who this is: one name, one running process")
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="any node of the cluster")
    parser.add_argument("--window-ms", type=int, default=10000, help="length of the window (10000)")
    parser.add_argument("--token-file", help="file with the token (else the variable LEAFD_TOKEN)")
    parser.add_argument("--ca-file", help="certificates of who signs the node's, for https")
    options = parser.parse_args()
    try:
        registry = Registry(options.url, read_token(options.token_file), options.ca_file)
    except (OSError, ValueError) as error:
        note(error)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of release()
    lease = Lease(registry, options.name, options.window_ms)
    try:
        lease.acquire()
        for _ in range(options.count):
            print(next_id(lease), flush=True)
    except (OSError, Refused, WindowOver) as error:
        note(error)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        lease.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
