"""The part of chaos that judges the values of tags: several clients write a name at the same time
and read it anywhere, and it has to be a register (chaos/register.py)."""

import random
import threading

import pytest

from chaos import admin_clients, register
from chaos.history import FAIL, OK, UNKNOWN
from chaos.judge import wrong_values
from chaos.register import GONE, THERE, read, write


def wrong(*operations):
    text, undecided = register.check(operations)
    assert not undecided
    return text


def put(name, at, until=None, before=None):
    return write(name, at, until, before, f"put of {name}")


def delete(at, until=None):
    return write(None, at, until, None if until is None else THERE, "a deletion")


def get(name, at, until):
    return read(name, at, until, f"get of {name}")


# --- what may be ---

RIGHT = {
    "nothing": [],
    "gone before it is made": [get(None, 1, 5), put("a", 6, 7)],
    "either while it is being made": [put("a", 1, 9), get(None, 2, 3), get("a", 4, 5)],
    "the later one of two": [put("a", 1, 2), put("b", 3, 4), get("b", 5, 6)],
    "two at once, this way": [put("a", 1, 9), put("b", 1, 9), get("a", 10, 11)],
    "two at once, that way": [put("a", 1, 9), put("b", 1, 9), get("b", 10, 11)],
    "a read that began before": [put("a", 1, 2), get("a", 3, 9), put("b", 4, 5), get("b", 6, 7)],
    "received when the other was sent": [put("a", 1, 4), put("b", 4, 6), get("a", 7, 8)],
    "unknown, and made": [put("a", 1, 2), put("b", 3), get("b", 4, 5)],
    "unknown, and not made": [put("a", 1, 2), put("b", 3), get("a", 4, 5)],
    "unknown, and made late": [put("a", 1, 2), put("b", 3), get("a", 40, 50), get("b", 60, 70)],
    "unknown, made late over another": [
        put("a", 1), put("b", 3, 4), get("b", 5, 6), get("a", 7, 8)],
    "deleted": [put("a", 1, 2), delete(3, 4), get(None, 5, 6)],
    "deleted late": [put("a", 1, 2), delete(3), get("a", 5, 6), get(None, 7, 8)],
    "made again": [put("a", 1, 2), delete(3, 4), put("b", 5, 6, GONE), get("b", 7, 8)],
    "two deletions that nobody knows of": [
        put("a", 1, 2), delete(3), delete(3), get(None, 5, 6), put("b", 7, 8), get(None, 9, 10)],
    "what nobody saw was there to delete": [put("a", 1), delete(3, 4), get(None, 5, 6)],
    "what nobody saw was there to change": [put("a", 1), put("b", 3, 4, THERE)],
    "gone in between for all that is known": [
        put("a", 1, 2), delete(3), put("b", 5, 6, GONE), get("b", 7, 8)],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_is_not_found(name):
    assert wrong(*RIGHT[name]) is None


# --- what may not ---

WRONG = {
    "a change that is lost": ([put("a", 1, 2), get(None, 3, 4)], "get of None"),
    "a stale read": ([put("a", 1, 2), put("b", 3, 4), get("a", 5, 6)], "get of a"),
    "a change undone by a late repeat": (
        [put("p", 1, 9), put("q", 10, 11), get("q", 12, 13), get("p", 14, 15)], "get of p"),
    "the same, though its answer never came": (
        [put("p", 1), get("p", 5, 6), put("q", 10, 11), get("q", 12, 13), get("p", 14, 15)],
        "get of p"),
    "the same, and the other one never answered": (
        [put("p", 1, 2), put("q", 10), get("q", 12, 13), get("p", 14, 15)], "get of p"),
    "the same, seen by one that waited long": (
        [put("p", 1, 2), put("q", 10), get("q", 12, 13), get("p", 11, 15), get("q", 16, 17),
         get("p", 18, 19)], "get of p"),
    "two that take turns": (
        [put("a", 1), put("b", 1), get("a", 2, 3), get("b", 4, 5), get("a", 6, 7)], "get of a"),
    "made again is deleted again": (
        [put("a", 1, 2), delete(3, 4), put("b", 5, 6), get("b", 7, 8), get(None, 9, 10)],
        "get of None"),
    "the same by a deletion without an answer": (
        [put("a", 1, 2), delete(3), get(None, 4, 5), put("b", 6, 7), get(None, 9, 10)],
        "get of None"),
    "a deletion that is undone": (
        [put("a", 1, 2), delete(3, 4), get(None, 5, 6), get("a", 7, 8)], "get of a"),
    "before it was sent": ([get("a", 1, 2), put("a", 3, 4)], "get of a: that was written later"),
    "by nobody": ([get("a", 1, 2)], "get of a: nobody wrote that"),
    "two reads of one time that need another order": (
        [put("a", 1, 9), put("b", 1, 9), get("a", 10, 11), get("b", 10, 11)], "get of "),
    "made, where it was": ([put("a", 1, 2), put("b", 3, 4, GONE)], "put of b"),
    "changed, where none was": ([put("a", 3, 4, THERE)], "put of a"),
    "deleted twice": ([put("a", 1, 2), delete(3, 4), delete(5, 6)], "a deletion"),
    "deleted twice with what nobody saw": (
        [put("a", 1), delete(3, 4), delete(5, 6)], "a deletion"),
    "gone by a deletion that was sent later": (
        [put("a", 1, 2), get(None, 3, 4), delete(5)], "get of None"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_may_not_be_is_found(name):
    operations, text = WRONG[name]
    found = wrong(*operations)
    assert found is not None and found.startswith(text), found
    for seed in range(10):
        shuffled = operations[:]
        random.Random(seed).shuffle(shuffled)
        assert wrong(*shuffled) is not None


# --- against a search without any cleverness ---


def can_be(operations):
    """All orders of the operations, those of unknown outcome in or out."""

    def goes_on(done, value):
        left = [at for at in range(len(operations)) if at not in done]
        known = [operations[at].received for at in left if operations[at].received is not None]
        if not known:
            return True
        for at in left:
            one = operations[at]
            if one.sent > min(known):
                continue
            there = value is not None
            if one.kind == "read" and one.value != value:
                continue
            if (one.before == THERE and not there) or (one.before == GONE and there):
                continue
            if goes_on(done | {at}, value if one.kind == "read" else one.value):
                return True
        return False

    return goes_on(frozenset(), None)


def draw(source):
    """Eight operations at most, of few values and times: about half of it cannot be."""
    operations = []
    values = [None]
    for number in range(source.randint(1, 8)):
        sent = source.randint(0, 14)
        received = sent + source.randint(0, 8)
        kind = source.random()
        unknown = source.random() < 0.35
        if kind < 0.35:
            values += [number, number]
            before = None if unknown else source.choice([None, None, THERE, GONE])
            operations.append(write(number, sent, None if unknown else received, before))
        elif kind < 0.5:
            operations.append(delete(sent, None if unknown else received))
        else:
            operations.append(get(source.choice(values), sent, received))
    return operations


def test_random_histories_are_judged_as_by_trying_all_orders():
    source = random.Random(8)
    fine = 0
    for _ in range(15_000):
        operations = draw(source)
        expected = can_be(operations)
        assert (wrong(*operations) is None) == expected, operations
        fine += expected
    assert 3000 < fine < 12_000


# --- at the size of a run ---


class Service:
    """A register that does right, with clients that do as those of chaos: what is asked for takes
    effect between request and answer, what is not answered at any later time or never."""

    def __init__(self, seed, count, clients=6):
        self.source = random.Random(seed)
        self.operations = []
        self.value = None
        self.serial = 0
        free = [0] * clients
        events = []  # (when, sent, received or None, what)
        for _ in range(count):
            client = min(range(clients), key=free.__getitem__)
            sent = free[client] + self.source.randint(1, 10)
            slow = self.source.random() < 0.02
            received = sent + self.source.randint(200, 900) if slow else sent + (
                self.source.randint(1, 15))  # fmt: skip
            free[client] = received
            what = self.source.choices(["put", "delete", "get"], [4, 1, 5])[0]
            when = self.source.randint(sent, received)
            if what != "get" and self.source.random() < 0.1:
                received = None
                when += self.source.choice([0, self.source.randint(0, 2000)])
            events.append((when, sent, received, what))
        for _, sent, received, what in sorted(events, key=lambda event: event[0]):
            self.serve(sent, received, what)

    def serve(self, sent, received, what):
        if what != "get" and received is None and self.source.random() < 0.3:
            value = f"lost{len(self.operations)}" if what == "put" else None
            self.operations.append(write(value, sent, None, None, "lost"))
        elif what == "get" or (what == "delete" and self.value is None and received is not None):
            self.operations.append(get(self.value, sent, received))
        elif what == "delete":
            self.value = None
            self.operations.append(delete(sent, received))
        else:
            self.serial += 1
            before = GONE if self.value is None else THERE
            self.value = self.serial
            self.operations.append(
                write(self.value, sent, received, None if received is None else before)
            )


def test_nothing_is_found_in_a_service_that_does_right():
    for seed in range(60):
        operations = Service(seed, 250).operations
        assert wrong(*operations) is None


def test_a_change_that_comes_back_is_found_in_a_long_history():
    """The end of it shows a value again that others had overwritten, and were seen."""
    for seed in range(30):
        service = Service(seed, 250)
        last = max(one.received or one.sent for one in service.operations)
        old = next(one.value for one in service.operations if one.kind == "read" and one.value)
        end = [put("new", last + 1, last + 2), get("new", last + 3, last + 4)]
        assert wrong(*service.operations, *end) is None
        found = wrong(*service.operations, *end, get(old, last + 5, last + 6))
        assert found is not None and found.startswith(f"get of {old}:"), found


def test_what_takes_too_long_is_undecided():
    """Writes at once, in any order: there are more ways than steps, and none that fits."""
    operations = [put(n, 1, 100) for n in range(10)] + [get(None, 101, 102)]
    assert wrong(*operations) is not None
    assert register.check(operations, steps=50) == (None, True)
    assert register.check(operations[:-1], steps=50) == (None, False)


# --- the judge ---

A, B, C = ({"step": n, "description": f"v{n}"} for n in (1, 2, 3))


def wrote(outcome, inv, ret, before=None, **values):
    return {"op": "put", "outcome": outcome, "inv": inv, "ret": ret, "values": values, "node": 2,
            "before": before}  # fmt: skip


def saw(inv, ret, found, name="x"):
    return {"op": "read", "name": name, "node": 1, "inv": inv, "ret": ret, "found": found,
            "outcome": OK}  # fmt: skip


JOURNALS = [wrote(OK, 10, 20, x=A), wrote(OK, 30, 40, x=B), wrote(UNKNOWN, 50, 60, x=C)]


@pytest.mark.parametrize(
    "seen",
    [saw(1, 5, None), saw(15, 16, None), saw(15, 16, A), saw(21, 29, A), saw(35, 36, A),
     saw(35, 36, B), saw(45, 49, B), saw(70, 80, B), saw(70, 80, C), saw(1, 90, C)],
)  # fmt: skip
def test_reads_of_what_may_be_pass(seen):
    assert wrong_values([*JOURNALS, seen], {}) == ([], [])


@pytest.mark.parametrize(
    "seen",
    [saw(21, 29, None), saw(45, 49, A), saw(45, 49, C), saw(21, 29, B), saw(70, 80, A),
     saw(70, 80, None), saw(70, 80, {**B, "step": 9}), saw(1, 90, A, "y")],
)  # fmt: skip
def test_stale_reads_are_found(seen):
    found, undecided = wrong_values([*JOURNALS, seen], {})
    assert len(found) == 1 and "shown as" in found[0] and not undecided


def test_what_a_name_may_be_in_the_end():
    refused = wrote(FAIL, 70, 80, x=None)
    rows = {name: {**row, "max_id": "1"} for name, row in (("a", A), ("b", B), ("c", C))}
    for row in (rows["b"], rows["c"]):
        assert wrong_values([*JOURNALS, refused], {1: {"x": row}, 2: {"x": row}}) == ([], [])
    lost, _ = wrong_values(JOURNALS, {1: {"x": rows["b"]}, 2: {}})
    assert len(lost) == 1 and lost[0].startswith("x is None on node 2 in the end")
    back, _ = wrong_values(JOURNALS, {1: {"x": rows["a"]}})
    assert len(back) == 1 and back[0].startswith("x is (1, 'v1') on node 1 in the end")
    gone = [*JOURNALS, wrote(OK, 90, 95, "there", x=None)]
    assert wrong_values(gone, {1: {}}) == ([], [])
    # Of unknown outcome, and so maybe carried out behind the deletion: but once.
    assert wrong_values(gone, {1: {"x": rows["c"]}}) == ([], [])
    once = [*gone, saw(70, 80, C)]
    assert len(wrong_values(once, {1: {"x": rows["c"]}})[0]) == 1


def test_a_name_that_was_there_is_not_made():
    made = wrote(OK, 25, 26, "gone", x=C)
    assert "x was made (3, 'v3'), having been gone" in wrong_values([*JOURNALS[:2], made], {})[0][0]
    assert wrong_values([*JOURNALS[:2], {**made, "before": "there"}], {}) == ([], [])


# --- the clients ---


def test_names_have_several_writers_and_are_read_after_them():
    names = admin_clients.Names()
    source = random.Random(3)
    writes = [name for _ in range(400) for name in names.written(source, "t", 1 + _ % 3)]
    counts = {name: writes.count(name) for name in writes}
    assert max(counts.values()) == admin_clients.NAME_WRITES
    assert all(count == admin_clients.NAME_WRITES for name, count in counts.items()
               if name not in names.writes)  # fmt: skip
    assert len(names.writes) <= admin_clients.NAMES_AT_ONCE
    seen = {names.read(source) for _ in range(500)}
    assert seen & set(names.left) and seen & set(names.recent)


class Answers:
    """A line that answers what it is told, and keeps what was asked."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.node = 1
        self.asked = []

    def exchange(self, request, no_body=False):
        from client import Response

        self.asked.append(request.split(b" ", 2)[:2])
        status = self.statuses.pop(0)
        if status is None:
            return None, UNKNOWN, 0
        body = b'{"step": 5, "description": "v", "code": "timeout"}'
        return Response(status, {}, body), OK, 0


class Out:
    def __init__(self):
        self.seed = 1
        self.spec = {"nodes": {"1": ("", 0)}}
        self.records = self
        self.entries = []
        self.stopping = threading.Event()

    def add(self, *fields):
        pass

    def journal(self, **entry):
        self.entries.append(entry)


def journal_of(status, act):
    out = Out()
    spec = {"kind": "admin", "wait_ms": 1, "rate": 1, "prefix": "p"}
    client = admin_clients.TagWriter(7, spec, out)
    client.line = lambda: Answers(status)
    act(client)
    return [(e["op"], e.get("values", e.get("found")), e.get("before"), e["outcome"])
            for e in out.entries]  # fmt: skip


def test_the_journal_says_what_the_answers_say():
    def deletes(client):
        client.delete("n")

    def puts(client):
        client.value = lambda: A
        client.put("n")

    assert journal_of(204, deletes) == [("delete", {"n": None}, "there", OK)]
    assert journal_of(404, deletes) == [("read", None, None, OK)]
    assert journal_of(503, deletes) == [("delete", {"n": None}, "there", UNKNOWN)]
    assert journal_of(409, deletes) == [("delete", {"n": None}, "there", FAIL)]
    assert journal_of(201, puts) == [("put", {"n": A}, "gone", OK)]
    assert journal_of(200, puts) == [("put", {"n": A}, "there", OK)]
    assert journal_of(None, puts) == [("put", {"n": A}, None, UNKNOWN)]
    read = {"step": 5, "description": "v"}
    assert journal_of(200, lambda client: client.read("n")) == [("read", read, None, OK)]
    assert journal_of(404, lambda client: client.read("n")) == [("read", None, None, OK)]
    assert journal_of(503, lambda client: client.read("n")) == []
