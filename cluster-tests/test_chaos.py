"""Chaos in short: what `make chaos` does, for some seconds (docs/testing.md).

  pytest cluster-tests/test_chaos.py --slow                 a minute each with three and five nodes
  CHAOS_SEED=7 CHAOS_SECONDS=20 pytest ...                  a run again, or longer
"""

import os
import random
import signal
import subprocess
import sys

import pytest

from node import ROOT

RUN = os.path.join(ROOT, "cluster-tests", "chaos", "run.py")
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.randrange(1, 1_000_000)
SECONDS = float(os.environ.get("CHAOS_SECONDS", "0"))
# An episode that has begun is ended, the nodes have to settle, and the clients have to stop.
END_S = 60.0


def run(tmp_path, seconds, *options):
    """Run it; what it says goes to this test's output."""
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, RUN, "--out", str(tmp_path)]
    command += ["--seed", str(SEED), "--seconds", str(seconds), *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        code = process.wait(seconds + END_S)
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait(END_S)
        raise
    assert code == 0, f"seed {SEED}: logs, data and a page are in {tmp_path}"
    with open(tmp_path / "report.html", encoding="utf-8") as page:
        assert "nothing found" in page.read()


@pytest.mark.bound(60)
def test_chaos_for_a_moment(binary, tmp_path):
    run(tmp_path, SECONDS or 12, "--plain-disks")


@pytest.mark.slow
@pytest.mark.bound(2 * END_S + SECONDS + 60)
@pytest.mark.parametrize("nodes", [3, 5])
def test_chaos(binary, tmp_path, nodes):
    run(tmp_path, SECONDS or 60, "--nodes", str(nodes))
