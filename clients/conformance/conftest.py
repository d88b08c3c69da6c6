"""Fixtures of the conformance suite (docs/clients.md).

  language   each test that takes it, or start, runs once for every language; one without a driver,
             or without what that needs, is left out, and the last lines say why
  start      starts a driver of the test's language; start_any(language) of any
  shared     a cluster of three nodes, which a test leaves as it found it
  faulty     the same, for tests that kill or pause nodes: at the end all are up again
  locked     a node with tokens and TLS
  client     a driver that was opened on the shared cluster
  steady     the same on one node of it, so that no other one is asked when that one takes long
  gates      a Gate in front of each node of the shared cluster
  fake       makes servers that answer as the test likes
  hole       makes machines that swallow packets

Nodes, ports and the bound of each test's time are those of cluster-tests.
"""

import collections
import importlib.util
import itertools
import os
import socket
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTER_TESTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "cluster-tests")
sys.path.insert(0, CLUSTER_TESTS)

# Its file has the name of this one.
_spec = importlib.util.spec_from_file_location(
    "cluster_conftest", os.path.join(CLUSTER_TESTS, "conftest.py")
)
_base = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_base)
binary = _base.binary
pytest_addoption = _base.pytest_addoption
pytest_collection_modifyitems = _base.pytest_collection_modifyitems
pytest_runtest_protocol = _base.pytest_runtest_protocol
pytest_runtest_makereport = _base.pytest_runtest_makereport
shared_cluster = _base.shared_cluster
shared = _base.shared
look_over = _base.look_over

from certificates import Authority  # noqa: E402
from cluster import FAST, Cluster  # noqa: E402
from driver import OVER_LIBLEAFD, SLOW_TO_START, Driver, chosen, urls, why_not  # noqa: E402
from fake import Fake  # noqa: E402
from gate import Gate, Loop  # noqa: E402
from test_listeners import Tokens  # noqa: E402

serial = itertools.count(1)


def pytest_configure(config):
    _base.pytest_configure(config)
    config.addinivalue_line("markers", "inside: what libleafd does by itself; of the languages "
                            "over it C stands for all, but in long runs (make nightly)")


def pytest_generate_tests(metafunc):
    if "language" in metafunc.fixturenames:
        languages = [language for language in chosen() if not why_not(language)]
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        if "inside" in marks and "c" in languages and "LEAFD_TESTS_LONG" not in os.environ:
            languages = [each for each in languages if each == "c" or each not in OVER_LIBLEAFD]
        metafunc.parametrize("language", languages)


def pytest_terminal_summary(terminalreporter):
    for language in chosen():
        reason = why_not(language)
        if reason:
            terminalreporter.write_line(f"left out: {language}: {reason}")


@pytest.fixture(scope="session")
def shared_settings():
    return FAST  # its leaders are killed and paused, and calls go on after an election


@pytest.fixture(scope="session")
def resting():
    """Drivers of tests that are over, by their language: the next test begins with one of them."""
    drivers = collections.defaultdict(list)
    yield drivers
    for driver in sum(drivers.values(), []):
        driver.kill()


@pytest.fixture
def start_any(request, tmp_path, resting):
    drivers = []

    def make(name, prefix=(), env=None):
        if resting[name] and not (prefix or env):
            driver = resting[name].pop()
        else:
            driver = Driver(name, tmp_path, prefix, env)
        drivers.append(driver)
        return driver

    yield make
    failed = getattr(request.node, "failed_once", False)
    for driver in drivers:
        if (driver.plain and driver.language in SLOW_TO_START and not failed
                and not resting[driver.language] and driver.rests()):
            resting[driver.language].append(driver)
        else:
            driver.kill()


@pytest.fixture
def start(start_any, language):
    return lambda **how: start_any(language, **how)


@pytest.fixture
def faulty(shared):
    yield shared
    for node in shared.nodes:
        if node.process is None:
            node.start()
        else:
            node.resume()
    shared.wait_ready(40)
    shared.leader()


@pytest.fixture
def client(start, shared):
    return start().open(endpoints=urls(shared))


@pytest.fixture
def steady(start, shared):
    return start().open(endpoints=urls(shared, shared.nodes[0]))


@pytest.fixture
def tag(request, shared):
    """A tag of the test's own."""
    name = f"{request.node.originalname}.{os.getpid()}.{next(serial)}"
    shared.create_tag(name)
    return name


@pytest.fixture
def strict_tag(request, shared):
    name = f"{request.node.originalname}.strict.{os.getpid()}.{next(serial)}"
    shared.create_tag(name, mode="strict")
    return name


@pytest.fixture(scope="session")
def gate_loop():
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def gates(shared, gate_loop):
    made = [Gate(gate_loop, node.address) for node in shared.nodes]
    yield made
    for gate in made:
        gate.close()


@pytest.fixture
def fake():
    made = []

    def make(handler, *how, **named):
        made.append(Fake(handler, *how, **named))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def hole():
    """A machine that swallows packets: make() gives the address of a port that answers no SYN.

    The kernel drops what comes for a listener whose queue of connections is full.
    """
    sockets = []

    def make():
        listener = socket.socket()
        sockets.append(listener)
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(100):
            filler = socket.socket()
            sockets.append(filler)
            filler.settimeout(0.2)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                return f"http://127.0.0.1:{listener.getsockname()[1]}"
        raise AssertionError("the queue of a listener does not fill up")

    yield make
    for one in sockets:
        one.close()


class Locked:
    """One node with tokens and TLS, and who signs."""

    def __init__(self, directory):
        self.authority = Authority(directory / "ca")
        self.stranger = Authority(directory / "stranger")
        self.authority.issue("node", "IP:127.0.0.1,DNS:localhost")
        self.tokens = Tokens(directory / "tokens")
        self.tokens.add("root", "roles=all")
        self.tokens.add("ids", "roles=ids,workers")
        self.tokens.add("reader", "roles=read")
        self.tokens.add("shop", "roles=ids prefix=shop/")
        self.tokens.write()
        self.cluster = Cluster(directory, 1, {
            **FAST,
            "http-tls-dir": self.authority.path("node"),
            "auth-tokens-file": self.tokens.path,
            "http-loops": 1,
        })
        self.node = self.cluster.nodes[0]
        self.node.tls = self.authority.client()
        self.url = f"https://127.0.0.1:{self.node.http_port}"

    def make(self, tag, **fields):
        answer = self.node.http("PUT", f"/api/tags/{tag}", fields, self.tokens.bearer("root"))
        assert answer.status in (200, 201), answer


@pytest.fixture(scope="session")
def locked_node(binary, tmp_path_factory):
    made = Locked(tmp_path_factory.mktemp("locked"))
    try:
        made.cluster.start()
        made.make("orders")
        made.make("shop%2Forders")
        made.make("numbers", mode="strict")
        yield made
    finally:
        made.cluster.end()


@pytest.fixture
def locked(request, locked_node):
    locked_node.node.check_running()
    yield locked_node
    look_over(request, [locked_node.cluster])


@pytest.fixture(scope="session")
def js53_cluster(binary, tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("js53"), 1, {**FAST, "snowflake-layout": "js53"})
    try:
        yield cluster.start()
    finally:
        cluster.end()


@pytest.fixture
def js53(request, js53_cluster):
    """A node of a cluster with another layout."""
    yield js53_cluster.nodes[0]
    look_over(request, [js53_cluster])
