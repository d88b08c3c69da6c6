"""Snowflake ids for tests: taken apart, taken one by one, and taken under load.

All snowflake ids of a cluster are one space, whatever key they were asked with: they go into the
history under one name, so that History.check() compares those of all nodes, clients and lives.
"""

from collections import Counter, defaultdict, namedtuple

from client import get_bytes, parse_ids
from load import Load, LoadClient
from wait import wait_until

EPOCH_MS = 1288834974657
SPACE = "snowflake"
MILLISECOND_IDS = 4096

Parts = namedtuple("Parts", "ms worker sequence")


def decode(number):
    return Parts((number >> 22) + EPOCH_MS, number >> 12 & 1023, number & 4095)


def target(count=1, wire_format="plain", timeout_ms=None, key="test"):
    options = []
    if wire_format != "plain":
        options += [f"count={count}", f"format={wire_format}"]
    if timeout_ms is not None:
        options.append(f"timeout_ms={timeout_ms}")
    return f"/api/snowflake/get/{key}?{'&'.join(options)}".rstrip("?")


def parse(answer, wire_format, count):
    return parse_ids(answer, wire_format, count, name="key")


def take(node, track=None, count=1, wire_format="plain", timeout_ms=None):
    """Ids of one request as ranges; it must be answered."""
    answer = node.get(target(count, wire_format, timeout_ms))
    assert answer.status == 200, f"{node}: {answer}"
    ranges = parse(answer, wire_format, count)
    for first, last in ranges if track is not None else []:
        track.add(first, last, ranges)
    return ranges


def wait_served(nodes, timeout=10.0, track_of=None):
    """Until each node has a worker id and hands out ids."""
    for node in nodes:
        track = track_of(node) if track_of else None
        wait_until(lambda n=node, t=track: take(n, t, timeout_ms=500), timeout, f"{node} has ids")


def refusal(node, timeout_ms=0):
    """The code of the refusal that a request for one id gets, or None with an id: for waits in
    which no id is expected to come."""
    answer = node.get(target(timeout_ms=timeout_ms))
    return None if answer.status == 200 else answer.code


def wait_refused(node, code, timeout=10.0, track=None):
    """Until requests are refused with this code; what is handed out before is kept in track."""

    def refused():
        answer = node.get(target(timeout_ms=0))
        if answer.status == 200 and track is not None:
            track.add(int(answer.body), int(answer.body), answer)
        return answer if answer.status != 200 and answer.code == code else None

    answer = wait_until(refused, timeout, f"{node} refuses with {code}")
    assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1, answer
    return answer


class SnowClient(LoadClient):
    """A client that takes a refusal only while the test expects it (SnowLoad.may_refuse)."""

    def __init__(self, load, name, node, count, wire_format, depth, rate, timeout_ms):
        super().__init__(load, name, node, count, wire_format, depth, rate, timeout_ms)
        self.request = get_bytes(target(count, wire_format, timeout_ms, name)) * depth
        self.refusals = Counter()

    def take_answer(self, response):
        if response.status != 200 and response.code in self.load.may_refuse[self.node.id]:
            self.refusals[response.code] += 1
            return
        super().take_answer(response)

    def parse(self, response):
        return parse(response, self.wire_format, self.count)


class SnowLoad(Load):
    """Clients of snowflake ids. may_refuse: for each node's id the codes that the test expects."""

    client_class = SnowClient

    def __init__(self, history):
        super().__init__(history, SPACE)
        self.may_refuse = defaultdict(set)

    def refusals(self, node):
        return sum((client.refusals for client in self.clients if client.node is node), Counter())
