"""Fixtures of the cluster tests: clusters that are watched, and a bound on the time of every test.

  make_cluster(...)  a cluster of the test's own, started unless start=False
  shared             one three-node cluster for all tests that leave it as they found it
  proxies            links between the nodes, to be attached before a cluster starts
  recorder           the history of the run, for check-history

After each test the clusters it used are looked over: a process that died by itself, a failed
assertion, a sanitizer's report or an unexpected line of level error fails the test. Data and logs
of a failed test are kept, and their place is printed.
"""

import faulthandler
import itertools
import os
import shutil
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import FAST, Cluster  # noqa: E402
from node import leafd_path  # noqa: E402
from proxy import Proxies  # noqa: E402
from strict_history import Recorder  # noqa: E402
from upgrade import wait_newest  # noqa: E402

DEFAULT_BOUND_S = 60
TAIL_LINES = 8  # of each node's log, in the report of a test that failed

tag_serial = itertools.count(1)

# A shell that starts the tests in the background has them, and so the nodes, ignore it; a node
# leaves it as it is (src/app/signals.h).
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_configure(config):
    config.addinivalue_line("markers", "bound(seconds): time limit of the test (default 60)")
    config.addinivalue_line("markers", "slow: takes long; run only with --slow")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


class BoundExceeded(BaseException):
    """The test's time is over. No Exception, so that no test can take it for an answer."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Limit the time of the test with its fixtures."""
    marker = item.get_closest_marker("bound")
    seconds = marker.args[0] if marker else DEFAULT_BOUND_S

    def on_alarm(*_):
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise BoundExceeded(f"longer than {seconds} s")

    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if call.excinfo is not None and call.excinfo.errisinstance(BoundExceeded):
        report.outcome = "failed"
    if report.failed:
        item.failed_once = True


@pytest.fixture(scope="session")
def binary():
    """The path of leafd; without it no test of this kind can run."""
    if not os.access(leafd_path(), os.X_OK):
        pytest.exit(f"no leafd at {leafd_path()}: build it with make, or set LEAFD", returncode=3)
    return leafd_path()


def look_over(request, clusters):
    """Fail the test for what its clusters' processes and logs show."""
    faults = [fault for cluster in clusters for fault in cluster.faults()]
    if faults or getattr(request.node, "failed_once", False):
        places = ", ".join(cluster.directory for cluster in clusters)
        print(f"\nlogs and data are kept in: {places}")
        for node in (node for cluster in clusters for node in cluster.nodes):
            print(f"{node}, its last lines:\n{node.log_tail(TAIL_LINES)}")
    if faults:
        pytest.fail("\n".join(faults[:20]), pytrace=False)


@pytest.fixture
def make_cluster(request, binary, tmp_path):
    clusters = []

    def make(size=3, settings=None, start=True, members=None):
        directory = tmp_path / f"cluster{len(clusters) + 1}"
        cluster = Cluster(directory, size, settings if settings is not None else FAST, members)
        clusters.append(cluster)
        return cluster.start() if start else cluster

    yield make
    try:
        look_over(request, clusters)
        if not getattr(request.node, "failed_once", False):
            for cluster in clusters:
                cluster.end()
                shutil.rmtree(cluster.directory, ignore_errors=True)
    finally:
        for cluster in clusters:
            cluster.end()


@pytest.fixture(scope="session")
def shared_cluster(binary, tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("shared"), 3, FAST)
    try:
        cluster.start()
        wait_newest(cluster)  # while it is new: the first test may kill a node
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def shared(request, shared_cluster):
    for node in shared_cluster.nodes:
        node.check_running()
    yield shared_cluster
    look_over(request, [shared_cluster])


@pytest.fixture
def proxies():
    made = Proxies()
    yield made
    made.close()


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path / "history")


@pytest.fixture
def tag(request):
    """A name of the test's own."""
    return f"{request.node.name.split('[')[0]}.{next(tag_serial)}"
