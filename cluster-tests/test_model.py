"""The model-based test (cluster-tests/model): sequences of all operations against a reference
model; and the faults that are known, which must still be there.

Here the sequences are always the same, so that a change is judged by what it changed. New ones are
drawn by `make model-test`, an hour of them by `make nightly`. A failure prints a sequence for
`cluster-tests/model/run.py --replay FILE`.
"""

import contextlib
import io
import json

import pytest

from model import run as driver
from model.known import KNOWN
from model.operations import NOT_DRAWN, OPERATIONS
from model.reference import Model, Share, Violation, text_of

SEED, SEQUENCES, MINUTES = 1, 12, 10


@pytest.mark.bound(MINUTES * 60 + 600)
def test_random_sequences(binary):
    said = io.StringIO()
    found = driver.campaign(SEED, MINUTES, [1, 1, 3], stream=said, most=SEQUENCES)
    print(said.getvalue())
    assert not found, said.getvalue()


@pytest.mark.bound(240)
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_known_fault_is_still_there(binary, name):
    """Who mended it deletes its row in model/known.py: then random sequences look for it."""
    violation = driver.replay(KNOWN[name].replay)
    assert violation is not None, f"{name} is mended: delete its row"
    assert violation.kind == KNOWN[name].kind, violation


HELD = """
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "as_": "alice", "key": "k0", "count": 2}]
["acquire", {"name": "w0"}]
["certificate", {"what": "server"}]
["certificate", {"what": "again"}]
["certificate", {"what": "authority"}]
["certificate", {"what": "ended"}]
["certificate", {"what": "stranger"}]
["certificate", {"what": "line"}]
["certificate", {"what": "line"}]
["certificate", {"what": "beside"}]
["cut_client", {}]
["renew", {"name": "w0"}]
["ids", {"tag": "a/0", "as_": "alice", "key": "k0", "count": 2}]
["certificate", {"what": "ends"}]
["ids", {"tag": "a/0", "as_": "alice"}]
"""


@pytest.mark.bound(240)
@pytest.mark.parametrize("size, rule", [(1, "optional"), (3, "required")])
def test_what_the_client_of_a_certificate_holds(binary, size, rule):
    """Each change of certificates once, over HTTP, also with an admin listener, and RESP."""
    head = {"nodes": size, "tags": {"a/0": {"mode": "strict"}}, "tls": rule, "split": size > 1}
    assert driver.replay(json.dumps(head) + HELD) is None


OWNED = """
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "as_": "alice", "key": "k0", "count": 2}]
["ids", {"tag": "a/0", "as_": "operator", "key": "k0", "count": 2, "node": 1}]
["ids", {"tag": "a/0", "as_": "operator", "key": "k0", "count": 2, "protocol": "next"}]
["acquire", {"name": "w0"}]
["renew", {"name": "w0", "as_": "bob", "node": 1}]
["release", {"name": "w0", "as_": "bob", "early": true}]
["acquire", {"name": "w0", "as_": "bob", "node": 2}]
["restart", {}]
["ids", {"tag": "a/0", "as_": "alice", "key": "k0", "count": 2, "node": 2}]
["renew", {"name": "w0", "as_": "alice"}]
["renew", {"name": "w0", "as_": "bob"}]
["release", {"name": "w0", "as_": "alice"}]
["release", {"name": "w0", "as_": "bob"}]
"""


@pytest.mark.bound(240)
@pytest.mark.parametrize("size, rule", [(1, None), (3, None), (1, "optional"), (3, "required")])
def test_who_owns_what_without_tokens(binary, size, rule):
    """By the certificate that a client shows, all of which come from one address here; else by the
    address."""
    head = {"nodes": size, "tags": {"a/0": {"mode": "strict"}}, "tls": rule, "open": True}
    assert driver.replay(json.dumps(head) + OWNED) is None


def test_a_sequence_is_a_function_of_its_seed():
    def drawn(seed):
        plan = driver.Plan(seed, 3)
        return plan.specs, plan.draw()

    assert drawn(7) == drawn(7) != drawn(8)
    steps, plan = driver.Plan(7, 1).draw(), driver.Plan(7, 1)
    again, read = driver.read(driver.printed(steps, plan))
    assert again == steps and read.size == 1
    assert all(spec == plan.specs[tag] for tag, spec in read.specs.items())


def test_every_operation_is_drawn_now_and_then():
    drawn = {name for seed in range(300) for name, _ in driver.Plan(seed, 3).draw()}
    assert drawn == set(OPERATIONS)
    covered = [what for operation in OPERATIONS.values() for what in operation.covers]
    assert not set(covered) & set(NOT_DRAWN)


def test_the_share_that_the_model_counts():
    share = Share().put(["e/1", "e/2"], "eve", 10)
    assert share.held() == 2 * (464 + 6 + 10)
    share.delete("e/1")
    assert share.held() == 144 + 3 + 464 + 6 + 10 and not share.lives("e/1")
    assert share.put(["e/2"], "operator", 9).held() == 144 + 3 + 464 + 6 + 9  # no larger: eve's
    assert share.put(["e/2"], "operator", 11).held() == 144 + 3
    assert share.put(["e/1"], "operator", 0).held() == 464 + 6 + 10
    full = Share().put([f"e/{number}" for number in range(1500)], "eve", 200)
    assert full.put([f"e/x{number}" for number in range(1500)], "eve", 200) is None
    assert full.put([f"e/x{number}" for number in range(1500)], "operator", 200) is not None


def broken(mode, *answers, shape=None, at=(0, 0)):
    """The kind of what the model finds in these answers to requests of two nodes."""
    model = Model(3)
    tag = model.tag("a/0", shape)
    tag.mode, tag.alive = mode, True
    try:
        for node, numbers in zip((*at, 0, 0), answers):
            texts = None if shape is None else [text_of(shape, number) for number in numbers]
            model.took(tag, node, numbers, texts, "here")
    except Violation as violation:
        return violation.kind
    return None


def test_the_model_finds_what_is_planted():
    assert broken("trend", [1, 2], [3]) is None and broken("trend", [9], [3], at=(0, 1)) is None
    assert broken("trend", [1, 2], [2, 3]) == "again"
    assert broken("trend", [5], [4]) == "falls-on-node"
    assert broken("trend", [2, 1]) == "not-rising"
    assert broken("strict", [1, 2], [3, 4], at=(0, 1)) is None
    assert broken("strict", [1, 2], [4], at=(0, 1)) == "strict-gap"
    assert broken("strict", [1, 3]) == "strict-gap"
    assert broken("monotonic", [5], [8], at=(0, 1)) is None
    assert broken("monotonic", [5], [4], at=(0, 1)) == "not-monotonic"
    days = [2026112801, 2026112802], [2026112901], [2026112802]
    assert broken("strict", *days[:2], shape="short-day") is None
    assert broken("strict", *days, shape="short-day") == "again-dated"


def test_the_model_knows_what_a_raise_covers():
    for raise_ids, kind in [(100, "again-restored"), (3, None)]:
        model = Model(1)
        tag = model.tag("a/0", None)
        model.took(tag, 0, [1, 2], None, "before")
        snapshot = model.snapshot()
        model.took(tag, 0, [3, 4, 5, 6], None, "after")
        model.restored(snapshot, raise_ids, False, False, 0)
        with pytest.raises(Violation) if kind else contextlib.nullcontext() as found:
            model.took(model.tag("a/0"), 0, [5], None, "restored")
        assert not kind or found.value.kind == kind


def test_texts_of_the_model():
    """As docs/shapes.md shows them."""
    assert [text_of("luhn", n) for n in (1, 123456)] == ["N0000018", "N1234566"]
    assert text_of("plain", 7) == "INV-007" and text_of("base62", 61) == "zx"
    assert text_of("day", 20261128000042) == "D20261128-000042"


def planted(steps, seconds=10):
    """What shrinking leaves of a failing sequence, without a cluster: it fails if it has both."""
    return driver.shrink(steps, None, None, seconds,
                         lambda steps: {"restore", "backup"} <= {name for name, _ in steps})


def test_shrinking_leaves_what_is_needed():
    noise = [("ids", {"tag": "a/0", "count": number}) for number in range(40)]
    steps = noise[:13] + [("backup", {"ctl": True})] + noise[13:] + [("restore", {"raise_": 5})]
    assert planted(steps) == [("backup", {}), ("restore", {})]
