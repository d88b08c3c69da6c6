"""Fixtures of the cluster tests: clusters that are watched, and a bound on the time of every test.

  make_cluster(...)  a cluster of the test's own, started unless start=False
  shared             one three-node cluster for all tests that leave it as they found it: tags are
                     deleted after each, and what else has changed fails it
  proxies            links between the nodes, to be attached before a cluster starts
  recorder           the history of the run, for check-history

After each test the clusters it used are looked over: a process that died by itself, a failed
assertion, a sanitizer's report or an unexpected line of level error fails the test. Data and logs
of a failed test are kept, and their place is printed, with the last lines and the /api/status of
each node that it had to do with.

Many tests run side by side, in an order that differs. What measures less than some seconds of a
real process, and mostly waits, is marked quiet: such tests run at the end, three at a time. What
also keeps the processors busy, or measures them, is marked alone and runs with nothing beside it.
"""

import faulthandler
import itertools
import os
import random
import shutil
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from client import tag_path  # noqa: E402
from cluster import FAST, STEADY, Cluster  # noqa: E402
from node import leafd_path, used  # noqa: E402
from proxy import Proxies  # noqa: E402
from strict_history import Recorder  # noqa: E402
from upgrade import wait_level  # noqa: E402
from wait import wait_until  # noqa: E402

DEFAULT_BOUND_S = 60
BUSY = 3  # so many times its bound a test may take on a machine that does other things, too
TAIL_LINES = 20  # of each node's log, in the report of a test that failed
MOST_LEFT = 200  # tags and so on, which the shared cluster is rid of one by one

# A flush to a disk that others use, too, takes up to a fifth of a second, and what is written costs
# the processor as much as the tests do. In memory it takes no time, and what a killed process has
# written stays. Long runs (make nightly), chaos and docker-compose keep to the disk.
MEMORY, MEMORY_BYTES = "/dev/shm", 8 << 30

tag_serial = itertools.count(1)

# A shell that starts the tests in the background has them, and so the nodes, ignore it; a node
# leaves it as it is (src/node/signals.h).
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--order-seed", type=int, help="run the tests in this random order")


def pytest_configure(config):
    # What a shell runs in the background ignores interrupts, and so does all that it starts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "LEAFD_TESTS_LONG" not in os.environ and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    config.addinivalue_line("markers", "bound(seconds): time limit of the test (default 60)")
    config.addinivalue_line("markers", "slow: takes long; with --slow, and by make nightly")
    config.addinivalue_line("markers", "quiet: measures so little time that little may run beside")
    config.addinivalue_line("markers", "alone: the same, and works so much that nothing may")


def bound_s(item):
    marker = item.get_closest_marker("bound")
    return marker.args[0] if marker else DEFAULT_BOUND_S


def group(item):
    """Tests that share a fixture of their file, which costs something, run one after the other in
    one process; the others are a group each."""
    if any(made[-1].scope == "module" for made in item._fixtureinfo.name2fixturedefs.values()):
        return item.module.__name__
    return item.nodeid


def put_in_order(items, seed):
    """By the seed; without one those that may take long are spread over the first two thirds: none
    is left over when the others are done, and they are not at work all at once. Those that share
    the cluster of their process come last: until then there is none, whose nodes would use the
    processor while nobody asks them. Groups stay together."""
    groups = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    for name, members in groups.items():
        for item in members if len(members) > 1 else ():
            item.add_marker(pytest.mark.xdist_group(name))
    groups = list(groups.values())

    def longest(members):
        return max(map(bound_s, members))

    if seed is None:
        groups.sort(key=lambda members: -longest(members))
        shared, apart = ([members for members in groups if (
            any("shared" in item.fixturenames for item in members)) == whether]
            for whether in (True, False))
        long = [members for members in apart if longest(members) > DEFAULT_BOUND_S]
        short = apart[len(long) :]
        every = 2 * len(short) // 3 // max(len(long), 1)
        groups = [one for number, members in enumerate(long)
                  for one in (members, *short[number * every : (number + 1) * every])]
        groups += short[len(long) * every :] + shared
    else:
        source = random.Random(seed)
        source.shuffle(groups)
        for members in groups:
            source.shuffle(members)
    items[:] = [item for members in groups for item in members]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--order-seed")
    # In one process the order of the files is the quickest: each has its fixtures made once.
    if seed is not None or hasattr(config, "workerinput"):
        put_in_order(items, seed)
    if config.getoption("--slow") or "LEAFD_TESTS_LONG" in os.environ:
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


def pytest_collection_finish():
    """What is said to the tests by LEAFD_... they have read by now. It is no setting of the leafds
    that they start, which refuse such a variable."""
    for name in [name for name in os.environ if name.startswith("LEAFD_")]:
        del os.environ[name]


class BoundExceeded(BaseException):
    """The test's time is over. No Exception, so that no test can take it for an answer."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Limit the time of the test with its fixtures."""
    seconds = BUSY * bound_s(item)
    used.clear()

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
        if call.when != "teardown":  # look_over() has told of the nodes before they were ended
            report.sections.extend((f"{node}", node.state(TAIL_LINES)) for node in list(used))


@pytest.fixture(scope="session")
def binary():
    """The path of leafd; without it no test of this kind can run."""
    if not os.access(leafd_path(), os.X_OK):
        pytest.exit(f"no leafd at {leafd_path()}: build it with make, or set LEAFD", returncode=3)
    return leafd_path()


def look_over(request, clusters):
    """Fail the test for what its clusters' processes and logs show."""
    faults = [fault for cluster in clusters for fault in cluster.faults()]
    failed = getattr(request.node, "failed_once", False)
    if faults or failed:
        places = ", ".join(cluster.directory for cluster in clusters)
        print(f"\nlogs and data are kept in: {places}")
    if faults and not failed:  # else they are in its report, as they were when it failed
        for node in (node for cluster in clusters for node in cluster.nodes):
            print(f"{node}:\n{node.state(TAIL_LINES)}")
    if faults:
        pytest.fail("\n".join(faults[:20]), pytrace=False)


@pytest.fixture
def make_cluster(request, binary, tmp_path):
    clusters = []

    def make(size=3, settings=None, start=True, members=None, proxies=None):
        directory = tmp_path / f"cluster{len(clusters) + 1}"
        cluster = Cluster(directory, size, settings if settings is not None else FAST, members)
        clusters.append(cluster)
        if proxies is not None:
            proxies.attach(cluster)
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


def all_tags(node):
    """The names of all tags, page by page."""
    names, after = set(), ""
    while after is not None:
        page = node.get_json(f"/api/tags?limit=1000{after}")
        names.update(row["tag"] for row in page["tags"])
        after = page["next"] and f"&after={tag_path(page['next'])}"
    return names


def left_behind(cluster):
    """What a test could leave in a cluster for others to see: (tags, layouts, members and level).
    Worker ids are not released: who gets one next would have to wait for the end of its window."""
    node = cluster.nodes[0]
    layouts = node.get_json("/api/layouts")["layouts"]
    status = node.cluster_status()
    return (
        all_tags(node),
        {row["name"] for row in layouts if not row.get("deleted")},
        ([(m["id"], m["role"]) for m in status["members"]], status["level"]["number"]),
    )


def clean(cluster, before):
    """Remove what a test has left in the cluster, and fail where it cannot be removed."""
    cluster.wait_ready()
    after = left_behind(cluster)
    tags, layouts = (now - then for now, then in zip(after[:2], before))
    targets = [f"/api/tags/{tag_path(tag)}" for tag in tags]
    targets += [f"/api/layouts/{name}" for name in layouts]
    assert len(targets) <= MOST_LEFT, f"it leaves {len(targets)}: a cluster of its own is quicker"
    for target in targets:
        wait_until(
            lambda at=target: cluster.nodes[0].http("DELETE", at).status in (204, 404), 30, target
        )
    assert after[2] == before[2], f"the members or the level have changed: {before[2]}, {after[2]}"


@pytest.fixture(scope="session")
def shared_settings():
    return STEADY


@pytest.fixture(scope="session")
def shared_cluster(binary, tmp_path_factory, shared_settings):
    cluster = Cluster(tmp_path_factory.mktemp("shared"), 3, shared_settings)
    try:
        cluster.start()
        wait_level(cluster, cluster.nodes[0].get_json("/version")["levels"]["max"])
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def shared(request, shared_cluster):
    for node in shared_cluster.nodes:
        node.check_running()
    before = left_behind(shared_cluster)
    yield shared_cluster
    look_over(request, [shared_cluster])
    if not getattr(request.node, "failed_once", False):
        clean(shared_cluster, before)


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
