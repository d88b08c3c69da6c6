"""Clients that are not bound to one node: those that change the cluster's tables (tags, modes,
worker ids for generators elsewhere), and those that repeat a request for strict or monotonic ids
under its key.

The tags of a run have several writers each, on all nodes, drawn anew for each request. Every value
is written once, so a read tells whose it is, and what must be is found out at the end
(register.py): reads of the contract are linearizable, and a change whose answer did not come may be
made once, at any later time. A name goes on being written and read then; after NAME_WRITES it is
left to the readers.

Everything of these goes to the journal; the judge compares it with what all nodes have in the end.
"""

import threading
import time
from collections import deque

from chaos import history
from chaos.clients import Client, Line, json_request
from chaos.history import OK
from client import parse_ids, tag_path

NAMES_AT_ONCE = 5
# So many writes of a name take the judge no time.
NAME_WRITES = 60
LEFT_NAMES = 100
# The cluster's time is the median of clocks, of which the run may set a minority ahead.
CLOCKS_APART_MS = 2000


class ManyNodes(Client):
    """A client that has a connection to each node."""

    def __init__(self, number, spec, out):
        super().__init__(number, spec, out)
        self.lines = {}

    def line(self):
        node, address = self.random.choice(sorted(self.out.spec["nodes"].items()))
        line = self.lines.get(node)
        if line is None or line.address != tuple(address):
            line = self.lines[node] = Line(int(node), address, self.wait_ms)
        return line

    def request(self, kind, method, target, body=None, fine=(200,), headers=None):
        """(outcome, answer, inv_ns, ret_ns, node): the answer's status is in fine, or None."""
        line = self.line()
        self.kind = kind
        data = json_request(method, target, body, headers)
        response, inv_ns, ret_ns = self.ask(line, data)
        if response is None:
            return history.UNKNOWN, None, inv_ns, ret_ns, line.node
        if response.status not in fine:
            outcome = self.refused(line, response, inv_ns, ret_ns)
            return outcome, None, inv_ns, ret_ns, line.node
        self.note(line, inv_ns, ret_ns, 0, status=response.status)
        return OK, response, inv_ns, ret_ns, line.node


class Names:
    """The tags that are written, and those that were, for all clients of the process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.serial = 0
        self.writes = {}  # name: how many so far
        self.recent = deque(maxlen=12)  # of the writes
        self.left = deque(maxlen=LEFT_NAMES)

    def written(self, source, prefix, count):
        """So many names to write next, each other ones."""
        with self.lock:
            while len(self.writes) < NAMES_AT_ONCE:
                self.serial += 1
                self.writes[f"{prefix}.{self.serial}"] = 0
            names = source.sample(sorted(self.writes), count)
            for name in names:
                self.writes[name] += 1
                self.recent.append(name)
                if self.writes[name] == NAME_WRITES:
                    del self.writes[name]
                    self.left.append(name)
        return names

    def read(self, source):
        """A name to read: one that was just written as a rule, or None before all writes."""
        with self.lock:
            names = self.left if self.left and source.random() < 0.2 else self.recent
            return source.choice(list(names)) if names else None


NAMES = Names()


class TagClient(ManyNodes):
    """Reads a tag. With the writers and a client for each node, some wait in the socket of one that
    is paused, or cut off from its successors."""

    def read(self, name):
        target = f"/api/tags/{tag_path(name)}"
        outcome, response, *when = self.request(history.READ, "GET", target, None, (200, 404))
        if outcome != OK:
            return False
        row = response.json() if response.status == 200 else None
        self.saw(name, row and {"step": row["step"], "description": row["description"]}, *when)
        return True

    def saw(self, name, found, inv_ns, ret_ns, node):
        """An answer showed this; None: there is no such tag."""
        self.out.journal(op="read", name=name, found=found, inv=inv_ns, ret=ret_ns, node=node,
                         outcome=OK, client=self.number)  # fmt: skip


class TagWriter(TagClient):
    """Makes, changes, deletes and reads tags, as others do at the same time."""

    def __init__(self, number, spec, out):
        super().__init__(number, spec, out)
        self.serial = 0

    def once(self):
        draw = self.random.random()
        if draw < 0.3:
            name = NAMES.read(self.random)
            return name is None or self.read(name)
        if draw < 0.75:
            return self.put(*self.names(1))
        if draw < 0.85:
            return self.bulk(self.names(3))
        return self.delete(*self.names(1))

    def names(self, count):
        return NAMES.written(self.random, self.spec["prefix"], count)

    def value(self):
        """One that nobody else writes."""
        self.serial += 1
        description = f"v{self.number}.{self.serial}"
        return {"step": self.random.randint(1, 1000), "description": description}

    def wrote(self, op, values, before, outcome, inv_ns, ret_ns, node):
        """values: {name: what it is if the request was done, None for gone}; before: what the
        answer tells of the names, "there" or "gone"."""
        self.out.journal(op=op, values=values, before=before, outcome=outcome, inv=inv_ns,
                         ret=ret_ns, node=node, client=self.number)  # fmt: skip
        return outcome == OK

    def put(self, name):
        value = self.value()
        outcome, response, *when = self.request(
            history.ADMIN, "PUT", f"/api/tags/{tag_path(name)}", value, (200, 201)
        )
        before = None
        if outcome == OK:
            before = "gone" if response.status == 201 else "there"
        return self.wrote("put", {name: value}, before, outcome, *when)

    def bulk(self, names):
        """All or none of the names at once."""
        values = {name: self.value() for name in names}
        items = [{"tag": name, **value} for name, value in values.items()]
        outcome, _, *when = self.request(history.ADMIN, "POST", "/api/tags", items)
        return self.wrote("bulk", values, None, outcome, *when)

    def delete(self, name):
        target = f"/api/tags/{tag_path(name)}"
        outcome, response, *when = self.request(history.ADMIN, "DELETE", target, None, (204, 404))
        if outcome == OK and response.status == 404:
            self.saw(name, None, *when)
            return True
        return self.wrote("delete", {name: None}, "there", outcome, *when)


class TagReader(TagClient):
    """Reads what others write, from one node."""

    def line(self):
        nodes = sorted(self.out.spec["nodes"].items(), key=lambda item: int(item[0]))
        node, address = nodes[self.spec["which"] % len(nodes)]
        line = self.lines.get(node)
        if line is None or line.address != tuple(address):
            line = self.lines[node] = Line(int(node), address, self.wait_ms)
        return line

    def once(self):
        name = NAMES.read(self.random)
        return name is None or self.read(name)


class Generator(ManyNodes):
    """Holds a worker id as a generator elsewhere would: acquires, renews, releases or forgets."""

    def __init__(self, number, spec, out):
        super().__init__(number, spec, out)
        self.life = 0
        self.grant = None
        self.name_now = ""

    def once(self):
        if self.grant is None:
            return self.acquire()
        draw = self.random.random()
        if draw < 0.75:
            return self.renew()
        if draw < 0.9:
            return self.release()
        self.grant = None  # crashed: its window passes unused
        return True

    def acquire(self):
        if not self.name_now or self.random.random() < 0.3:
            self.life += 1
            self.name_now = f"{self.spec['prefix']}-{self.number}-{self.life}"
        body = {"name": self.name_now, "window_ms": self.random.randint(1000, 8000)}
        outcome, response, *when = self.request(
            history.WORKER, "POST", "/api/workers", body, (201,)
        )
        self.grant = response.json() if outcome == OK else None
        self.log("acquire", outcome, when, grant=self.grant, name=self.name_now)
        if outcome == history.UNKNOWN:
            self.name_now = None  # it may yet be carried out, and fence a later one of this name
        return outcome == OK

    def renew(self):
        grant = self.grant
        body = {"epoch": grant["epoch"], "window_ms": self.random.randint(1000, 8000)}
        target = f"/api/workers/{grant['worker_id']}"
        outcome, response, *when = self.request(history.WORKER, "PUT", target, body, (200, 409))
        renewed = outcome == OK and response.status == 200
        self.log("renew", outcome, when, grant=response.json() if renewed else None, asked=grant)
        if renewed:
            self.grant = response.json()
        elif outcome == OK:
            # Only this client uses the name, so nobody may have it before its window is over.
            if time.time() * 1000 < grant["until_ms"] - CLOCKS_APART_MS:
                self.out.faults.add(f"{self.name_now} with {grant} was refused: {response}")
            self.grant = None
        return outcome == OK

    def release(self):
        """Having stamped nothing above the middle of what it may use. The worker id is not used
        any more from here on, whatever the answer."""
        grant, self.grant = self.grant, None
        last_ms = max(grant["from_ms"] + 1, min(grant["until_ms"], int(time.time() * 1000)))
        target = f"/api/workers/{grant['worker_id']}?epoch={grant['epoch']}"
        target += f"&last_timestamp_ms={last_ms}"
        self.log("releasing", OK, [time.monotonic_ns(), 0, 0], grant=grant, last_ms=last_ms)
        outcome, _, *when = self.request(history.WORKER, "DELETE", target, None, (204,))
        self.log("released", outcome, when, grant=grant)
        return outcome == OK

    def log(self, op, outcome, when, **more):
        inv_ns, ret_ns, node = when
        self.out.journal(op=op, outcome=outcome, inv=inv_ns, ret=ret_ns, node=node,
                         client=self.number, **more)  # fmt: skip


class KeyHolder(ManyNodes):
    """Takes strict or monotonic ids under a key, asks again under the key while no answer comes,
    and sometimes when it did: through other nodes the answer must be the same."""

    def __init__(self, number, spec, out):
        super().__init__(number, spec, out)
        self.serial = 0
        self.key = None
        self.count = 0
        self.first = None

    def once(self):
        if self.key is None:
            self.serial += 1
            self.key = f"{self.number}-{self.serial}"
            self.count = self.random.randint(1, 20)
            self.first = None
        target = f"/api/segment/get/{tag_path(self.spec['tag'])}"
        target += f"?count={self.count}&format=range&timeout_ms={self.wait_ms}"
        headers = {"Idempotency-Key": self.key}
        outcome, response, inv_ns, ret_ns, node = self.request(
            history.STRICT_KEY, "GET", target, headers=headers
        )
        first = None
        if outcome == OK:
            [(first, _)] = parse_ids(response, "range", self.count)
            if self.first not in (None, first):
                self.out.faults.add(f"key {self.key} on node {node}: {first} after {self.first}")
            self.first = first
        self.out.journal(op="keyed", tag=self.spec["tag"], key=self.key, inv=inv_ns, ret=ret_ns,
                         count=self.count, first=first, outcome=outcome, node=node,
                         client=self.number)  # fmt: skip
        if self.first is not None and self.random.random() < 0.7:
            self.ids += self.count
            self.key = None
        return outcome == OK


class ModeSwitch(ManyNodes):
    """Makes a tag strict or monotonic, and trend again. From when it is neither on, ids that are at
    or above the max_id of that time rise (judge.py)."""

    def once(self):
        mode = self.random.choice(self.spec["modes"])
        target = f"/api/tags/{tag_path(self.spec['tag'])}"
        outcome, response, inv_ns, ret_ns, node = self.request(
            history.ADMIN, "PUT", target, {"mode": mode}
        )
        max_id = int(response.json()["max_id"]) if outcome == OK else None
        self.out.journal(op="mode", tag=self.spec["tag"], mode=mode, max_id=max_id, inv=inv_ns,
                         ret=ret_ns, node=node, outcome=outcome, client=self.number)  # fmt: skip
        return outcome == OK
