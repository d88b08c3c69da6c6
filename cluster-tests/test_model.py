"""The model-based test (cluster-tests/model): random sequences of all operations against a
reference model, with a new seed each time; and the faults that are known, which must still be
there.

A failure prints a sequence for `cluster-tests/model/run.py --replay FILE`. MODEL_MINUTES and
MODEL_SEED say how long and from which seed; make model-test sets them.
"""

import io
import os
import random

import pytest

from model import run as driver
from model.known import KNOWN
from model.operations import NOT_DRAWN, OPERATIONS

MINUTES = float(os.environ.get("MODEL_MINUTES") or 2)


@pytest.mark.bound(MINUTES * 60 + 600)
def test_random_sequences(binary):
    seed = int(os.environ.get("MODEL_SEED") or random.SystemRandom().getrandbits(32))
    said = io.StringIO()
    found = driver.campaign(seed, MINUTES, [1, 1, 3], stream=said)
    print(said.getvalue())
    assert not found, said.getvalue()


@pytest.mark.bound(240)
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_known_fault_is_still_there(binary, name):
    """Who mended it deletes its row in model/known.py: then random sequences look for it."""
    violation = driver.replay(KNOWN[name].replay)
    assert violation is not None, f"{name} is mended: delete its row"
    assert violation.kind == KNOWN[name].kind, violation


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


def planted(steps, seconds=10):
    """What shrinking leaves of a failing sequence, without a cluster: it fails if it has both."""
    return driver.shrink(steps, None, None, seconds,
                         lambda steps: {"restore", "backup"} <= {name for name, _ in steps})


def test_shrinking_leaves_what_is_needed():
    noise = [("ids", {"tag": "a/0", "count": number}) for number in range(40)]
    steps = noise[:13] + [("backup", {"ctl": True})] + noise[13:] + [("restore", {"raise_": 5})]
    assert planted(steps) == [("backup", {}), ("restore", {})]
