"""scripts/explore-move: the protocol by which a tag would move between groups (docs/scale.md)."""

import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def explore(*arguments):
    return subprocess.run(
        [os.path.join(ROOT, "scripts/explore-move"), "--ids", "3", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.bound(200)
def test_the_protocol_holds_and_each_fault_is_found():
    done = explore()
    assert done.returncode == 0, done.stdout + done.stderr
    faults = explore("--list").stdout.splitlines()
    assert len(faults) >= 12
    assert done.stdout.splitlines()[-1] == f"{len(faults) + 1} passed, 0 failed"


def test_a_fault_that_is_not_found_fails():
    """With one move nothing comes back, so that marks are final does no harm."""
    done = explore("--moves", "1", "marks-are-final")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout == "marks-are-final: NOT found\n0 passed, 1 failed\n"
