"""The tools of chaos: that the shim strikes, that a schedule is its seed's, that the judge finds
what is wrong and permits no more than it says, and that the page has it all."""

import json
import os
import subprocess
import sys
import time

import pytest

from chaos import disks, history, load, report, schedule, strictness
from chaos.events import Events
from chaos.health import NS, Health, Intervals, find_following, find_well
from chaos.history import FAIL, MORE, NONE, OK, UNKNOWN
from chaos.judge import Judge, hasty_terms, overlapping_windows, wrong_tables, wrong_terms
from chaos.links import Links, Shape
from wait import wait_until

ALL_FEATURES = {"shim", "images", "clocks", "strict", "monotonic", "transfer", "members"}


# --- the shim ---


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return disks.build_shim(tmp_path_factory.mktemp("shim"))


class Program:
    """A small program whose files lie in a directory of the shim's."""

    def __init__(self, tmp_path, shim):
        self.inside = tmp_path / "disk"
        self.inside.mkdir()
        self.outside = tmp_path / "diskette"
        self.outside.mkdir()
        self.rules_path = tmp_path / "rules"
        self.env = {
            **os.environ, "LD_PRELOAD": shim, "DISK_SHIM_DIR": str(self.inside),
            "DISK_SHIM_RULES": str(self.rules_path), "DISK_SHIM_SEED": "7",
        }  # fmt: skip

    def rules(self, text):
        fresh = self.rules_path.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.rules_path)

    def start(self, code, directory=None):
        """code has: fd, an open file, and os, mmap, time."""
        head = "import os, mmap, time\nfd = os.open('file', os.O_RDWR | os.O_CREAT, 0o600)\n"
        return subprocess.Popen(
            [sys.executable, "-c", head + code], env=self.env, cwd=directory or self.inside,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, code, directory=None):
        process = self.start(code, directory)
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
        return process.returncode, out.strip(), err

    def told(self):
        path = self.rules_path.with_name("rules.log")
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def program(tmp_path, shim):
    return Program(tmp_path, shim)


CALLS = {
    "fdatasync": "os.fdatasync(fd)",
    "fsync": "os.fsync(fd)",
    "write": "os.write(fd, b'x' * 100)",
    "writev": "os.writev(fd, [b'x' * 50, b'y' * 50])",
    "pwrite": "os.pwrite(fd, b'x' * 100, 0)",
    "pwritev": "os.pwritev(fd, [b'x' * 50, b'y' * 50], 0)",
    "msync": "os.ftruncate(fd, 4096); mmap.mmap(fd, 4096).flush()",
}


@pytest.mark.parametrize("call", CALLS)
def test_the_shim_fails_each_call(program, call):
    for rule in (call, "all", "sync" if "sync" in call else "write"):
        program.rules(f"{rule} error=EIO\n")
        code, _, err = program.run(CALLS[call])
        assert code == 1 and "[Errno 5]" in err, err
    path = program.inside / "file"
    assert program.told() == [f"{call} EIO {path}"] * 3
    program.rules("write error=EIO" if "sync" in call else "sync error=EIO")
    assert program.run(CALLS[call])[0] == 0
    program.rules("")
    assert program.run(CALLS[call])[0] == 0
    assert len(program.told()) == 3


def test_the_shim_leaves_other_files_alone(program):
    program.rules("all error=EIO")
    assert program.run(CALLS["fdatasync"], program.outside)[0] == 0
    assert program.run("print('to a pipe')")[:2] == (0, "to a pipe")


# Two threads write, and signals whose handler writes to a pipe, as libuv's does, come in the midst:
# Python's own handler, in C, does so in the thread that takes the signal. Main takes none, and
# counts what comes out of the pipe.
SIGNALS = """
import signal, threading
def write_on():
    while True:
        os.write(2, b'')
reads, writes = os.pipe2(os.O_NONBLOCK)
os.set_blocking(reads, True)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.set_wakeup_fd(writes)
for _ in range(2):
    threading.Thread(target=write_on, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
left = 50000
while left > 0:
    os.kill(os.getpid(), signal.SIGUSR1)
    left -= len(os.read(reads, 256))  # waits for this one at least
os._exit(0)
"""


def test_a_signal_may_come_in_the_midst_of_a_call(program):
    """With a lock around that a process hung at SIGTERM once in some thousands of times."""
    assert program.run(SIGNALS) == (0, "", "")


def test_the_shim_delays(program):
    timed = "begin = time.monotonic(); os.fdatasync(fd); print(time.monotonic() - begin)"
    program.rules("fdatasync delay_ms=1500")
    _, out, _ = program.run(timed)
    assert 1.49 <= float(out) < 10  # nanosleep counts from a tick before
    program.rules("pwrite delay_ms=15000")
    _, out, _ = program.run(timed)
    assert float(out) < 10


def test_new_rules_let_a_hanging_call_go(program):
    program.rules("sync delay_ms=60000")
    process = program.start("print('begin', flush=True); os.fsync(fd); print('end')")
    assert process.stdout.readline() == "begin\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    program.rules("")
    assert process.wait(10) == 0 and process.stdout.read() == "end\n"


def test_the_shim_skips_and_draws(program):
    tries = "for n in range(200):\n try: os.fsync(fd)\n except OSError: print(n)\n"
    program.rules("sync error=ENOSPC skip=5")
    assert program.run(tries)[1].split() == [str(n) for n in range(5, 200)]
    program.rules("sync error=EIO percent=20")
    first = program.run(tries)[1].split()
    assert 15 <= len(first) <= 70
    assert program.run(tries)[1].split() == first, "drawn from the seed alone"
    program.env["DISK_SHIM_SEED"] = "8"
    assert program.run(tries)[1].split() != first


@pytest.mark.parametrize("call", ["write", "pwrite", "writev", "pwritev"])
def test_a_short_write_leaves_half(program, call):
    program.rules("write error=EIO short=1")
    assert program.run(CALLS[call])[0] == 1
    assert (program.inside / "file").stat().st_size == 50


@pytest.mark.parametrize("rules", ["sync delay=5", "sync error=EWHY", "sync percent", "all x=1"])
def test_rules_that_mean_nothing_end_the_program(program, rules):
    program.rules(rules)
    code, _, err = program.run("os.fsync(fd)")
    assert code == -6 and "disk_shim" in err


# --- disks ---


class FakeNode:
    def __init__(self, directory, node_id=1):
        self.id = node_id
        self.directory = str(directory)
        self.process = None


@pytest.fixture
def disk(tmp_path):
    made = disks.Disk(FakeNode(tmp_path), "", images=False)
    os.makedirs(os.path.dirname(made.data_file()))
    with open(made.data_file(), "wb") as file:
        file.write(bytes(range(256)) * 16 * 20)
    return made


@pytest.mark.parametrize("how", schedule.DAMAGES)
def test_damage_is_done_and_undone(disk, how):
    def content():
        try:
            with open(disk.data_file(), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    before = content()
    disk.keep_copy()
    disk.damage(how, 5)
    after = content()
    assert after != before
    disk.put_back()
    assert content() == before
    disk.keep_copy()
    disk.damage(how, 5)
    assert content() == after, "drawn from the seed alone"


@pytest.fixture
def image(tmp_path):
    """A disk with a file system of its own."""
    if os.geteuid() != 0 or not disks.images_work(str(tmp_path)):
        pytest.skip("no file system can be mounted here")
    made = disks.Disk(FakeNode(tmp_path), "", images=True)
    yield made
    made.close()


def test_a_power_cut_takes_what_was_not_synced(image):
    lost = os.path.join(image.mount_point, "lost")
    with open(lost, "wb") as file:
        file.write(b"not synced")
    image.cut_power()
    image.restore_power()
    assert not os.path.exists(lost)


def test_a_disk_that_has_room_again_has_it_after_a_power_cut(image):
    image.fill(0)
    assert os.statvfs(image.mount_point).f_bavail == 0
    disks.sync_path(image.ballast)
    image.free()
    room = os.statvfs(image.mount_point).f_bavail
    image.cut_power()
    image.restore_power()
    assert os.statvfs(image.mount_point).f_bavail == room > 1000


def test_lost_data_are_moved_away_and_kept(disk):
    first = disk.move_away()
    assert not os.path.exists(disk.node.data_dir)
    assert os.path.exists(os.path.join(first, "db", "data.mdb"))


# --- links ---


def test_a_shape_delays_narrows_and_spoils():
    assert Shape(delay_ms=50).due(1000, now=7.0) == pytest.approx(7.05)
    jitter = Shape(delay_ms=50, jitter_ms=20, seed=1)
    times = {jitter.due(1, now=0.0) for _ in range(50)}
    assert 0.05 <= min(times) < max(times) <= 0.07
    narrow = Shape(bytes_per_s=1000)
    assert [narrow.due(500, now=0.0) for _ in range(3)] == pytest.approx([0.5, 1.0, 1.5])
    clean = bytes(1000)
    spoilt = [Shape(corrupt_bytes=1000, seed=n).spoil(clean) for n in range(20)]
    assert all(sum(byte.bit_count() for byte in data) == 1 for data in spoilt)
    assert Shape().spoil(clean) is clean


@pytest.fixture
def one_link():
    """A proxy before a server of the test's own, both directions between "0" (nobody) and 1."""
    import socket

    links = Links()
    server = socket.create_server(("127.0.0.1", 0))
    node = FakeNode(".")
    node.peer_port = server.getsockname()[1]
    node.peer_address = f"127.0.0.1:{node.peer_port}"
    node.settings = {}

    class FakeCluster:
        nodes = [node]

        def set_members(self, members):
            self.members = members

    cluster = FakeCluster()
    links.attach(cluster)
    port = int(cluster.members[1].partition(":")[2])
    near = socket.create_connection(("127.0.0.1", port), timeout=30)
    server.settimeout(10)
    far, _ = server.accept()
    far.settimeout(10)
    yield links, near, far
    for one in (near, far, server):
        one.close()
    links.close()


def test_links_carry_delay_cut_and_drop(one_link):
    links, near, far = one_link
    near.sendall(b"plain")
    assert far.recv(10) == b"plain"
    links.shape([(0, 1)], delay_ms=200)
    begin = time.monotonic()
    near.sendall(b"slow")
    assert far.recv(10) == b"slow" and time.monotonic() - begin >= 0.2
    far.sendall(b"the other way is quick")
    assert near.recv(100) and time.monotonic() - begin < 5
    links.cut_links([(0, 1)])
    near.sendall(b"lost")
    far.sendall(b"not lost")
    assert near.recv(100) == b"not lost"
    far.settimeout(0.3)
    with pytest.raises(TimeoutError):
        far.recv(10)
    far.settimeout(10)
    links.restore([(0, 1)])
    assert far.recv(10) == b"", "a connection that lost bytes is closed"


def test_reset_drops_connections(one_link):
    links, near, far = one_link
    near.sendall(b"x")
    assert far.recv(10) == b"x"
    links.reset([(0, 1)])
    assert far.recv(10) == b"" and near.recv(10) == b""


# --- the schedule ---


def test_a_schedule_is_its_seeds():
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from chaos import schedule\n"
        "plan = schedule.Plan(12, 5, ['clocks', 'shim', 'members'])\n"
        "print(json.dumps([schedule.episodes(plan, 600), schedule.settings(plan)]))\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    outputs = {
        subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True,
                       check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    plan = schedule.Plan(12, 5, {"shim", "members", "clocks"})
    assert json.loads(outputs.pop())[0] == schedule.episodes(plan, 600)
    assert schedule.episodes(schedule.Plan(13, 5, plan.features), 600) != (
        schedule.episodes(plan, 600))  # fmt: skip


@pytest.mark.parametrize("nodes", [3, 5])
def test_every_family_comes_and_is_well_formed(nodes):
    plan = schedule.Plan(1, nodes, ALL_FEATURES)
    size = len(schedule.deck(plan))
    found = [schedule.episode(plan, number) for number in range(4 * size)]
    assert {e["family"] for e in found[:size]} == set(schedule.deck(plan))
    for episode in found:
        for fault in episode["faults"]:
            assert 0 <= fault["begin"] <= fault["end"] < 30, episode
            node = fault.get("node")
            names = (None, "leader", "follower", "all", "new", "struck")
            assert node in names or 1 <= node <= nodes


def test_what_the_machine_cannot_do_is_not_drawn():
    plan = schedule.Plan(1, 3, set())
    assert not {"slow disk", "power cut", "clock jump", "ring"} & set(schedule.deck(plan))
    only = schedule.Plan(1, 3, ALL_FEATURES, ["kill", "pause"])
    assert {schedule.episode(only, n)["family"] for n in range(20)} == {"kill", "pause"}


# --- health ---


def test_intervals():
    found = Intervals([(5, 8), (1, 3), (2, 4), (8, 9)])
    assert found.pairs() == [(1, 4), (5, 9)]
    assert found.meets(4, 5) and found.meets(0, 1) and found.meets(9, 20) and found.meets(6, 7)
    assert not found.meets(10, 20) and not found.meets(-5, 0) and not Intervals().meets(0, 9)


ALL_APART = [(a, b) for a in (1, 2) for b in (3, 4, 5)]


@pytest.mark.parametrize(
    "sound, cut, limping, size, following, well",
    [
        ({1, 2, 3}, [], [], 3, {1, 2, 3}, {1, 2, 3}),
        ({1, 2}, [], [], 3, {1, 2}, {1, 2}),
        ({1}, [], [], 3, set(), set()),
        ({1, 2, 3}, [(1, 2), (1, 3)], [], 3, {2, 3}, {2, 3}),
        # 1 and 2 may both lead; only 3 reaches whoever does itself, and the other through 3
        ({1, 2, 3}, [(1, 2)], [], 3, {3}, {1, 2, 3}),
        ({1, 2}, [(1, 2)], [], 3, set(), set()),
        ({1, 2, 3}, [(1, 2), (1, 3), (2, 3)], [], 3, set(), set()),
        ({1, 2, 3, 4, 5}, ALL_APART, [], 5, {3, 4, 5}, {3, 4, 5}),
        ({1, 2, 3, 4}, [(1, 2)], [], 5, {3, 4}, {1, 2, 3, 4}),
        # two hops are none: 1 reaches 2 alone, which reaches neither 4 nor 5
        ({1, 2, 3, 4, 5}, [(1, 3), (1, 4), (1, 5), (2, 4), (2, 5)], [], 5, {3}, {2, 3, 4, 5}),
        ({1, 2, 3}, [], [(1, 2)], 3, {3}, {3}),  # answers come now and then: no detour
        ({1, 2, 3}, [(1, 2)], [(1, 3)], 3, set(), set()),  # 3 is no good way for 1
        ({1, 2, 3}, [], [(1, 2), (1, 3)], 3, set(), set()),  # 1 may lead, and then all limp
        ({1, 2, 3}, [(1, 2), (1, 3)], [(1, 2)], 3, {2, 3}, {2, 3}),
    ],
)
def test_who_is_well(sound, cut, limping, size, following, well):
    pairs = [{frozenset(pair) for pair in some} for some in (cut, limping)]
    assert find_following(sound, *pairs, size) == following
    assert find_well(sound, *pairs, size) == well


class World:
    """A run that was made up: seconds instead of nanoseconds, one sample of each node a second."""

    def __init__(self, tmp_path, nodes=(1, 2, 3), length=100):
        self.events_made = Events()
        self.samples = []
        self.nodes = nodes
        self.begin_ns = 0
        self.end_ns = length * NS
        self.clock_ms = 1_800_000_000_000
        self.directory = str(tmp_path / "5")
        (tmp_path / "5" / "load").mkdir(parents=True)
        self.records = [str(tmp_path / "all.records")]
        self.writer = history.Writer(self.records[0])
        self.journals = []
        self.tables = {}
        self.workers = {}
        self.texts = []
        self.spaces = {0: "snowflake", 1: "orders", 2: "invoices", 3: "tickets"}
        self.kinds = {0: ("snowflake", history.SNOWFLAKE), 1: ("orders", history.SEGMENT),
                      2: ("invoices", history.STRICT),
                      3: ("tickets", history.MONOTONIC)}  # fmt: skip
        self.unsettled = set()  # (node, second)

    def effect(self, at, name, on, **more):
        self.events_made.effect(name, on, at=int(at * NS), **more)

    def op(self, inv, ret, first=0, count=1, node=1, kind=history.SEGMENT, space=1, outcome=OK,
           code=NONE, status=200, wait_ms=10_000, client=1):  # fmt: skip
        code = history.code_number(code) if isinstance(code, str) else code
        self.writer.add(int(inv * NS), int(ret * NS), first, count, count, wait_ms, client, space,
                        status, node, kind, outcome, code)  # fmt: skip

    def error(self, inv, ret, code, node=1, **more):
        self.op(inv, ret, 0, 0, node, outcome=UNKNOWN, code=code, status=503, **more)

    def health(self, election_ms=1000):
        for second in range(self.end_ns // NS):
            for node in self.nodes:
                if (node, second) not in self.unsettled:
                    self.samples.append({
                        "t": second * NS, "end": second * NS + 1, "node": node, "ok": True,
                        "life": 1, "term": 1, "state": "leader" if node == 1 else "follower",
                        "leader": 1, "commit": 1, "applied": 1,
                    })  # fmt: skip
        return Health(self.events_made.all, self.samples, self.nodes, election_ms)

    def judge(self):
        self.writer.flush()
        self.events = self.events_made.all
        self.health = self.health()
        return Judge(self)

    def found(self):
        return [(f["check"], f["text"]) for f in self.judge().findings]

    def offset(self, time_ns):
        return f"{time_ns / NS:.3f} s"

    def episode_at(self, _):
        return 0


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def permits(health, begin, end, code="no_leader", node=1, wait_ms=10_000, clocked=False):
    return health.permits(node, int(begin * NS), int(end * NS), wait_ms, code, clocked)


def test_errors_where_a_node_was_down(world):
    world.effect(10, "down", True, node=2)
    world.effect(14, "down", False, node=2)
    world.unsettled = {(2, n) for n in range(10, 17)}
    health = world.health()
    for code in ("(refused)", "(connection lost)", "shutting_down", "timeout", "no_worker_id"):
        assert permits(health, 9, 10.5, code, node=2)
        assert permits(health, 16.5, 16.9, code, node=2), "it settled at 17"
        assert not permits(health, 17.5, 18, code, node=2)
        assert not permits(health, 11, 12, code, node=1), "the others are well"
    for code in ("unknown_tag", "exhausted", "internal_error", "(not HTTP)", "(other)"):
        assert not permits(health, 11, 12, code, node=2)
    assert permits(health, 11, 0, "timeout", node=2), "never answered"


def test_errors_where_no_majority_is_up(world):
    world.effect(10, "down", True, node=1)
    world.effect(12, "down", True, node=2)
    world.effect(20, "down", False, node=1)
    world.effect(20, "down", False, node=2)
    world.unsettled = {(n, s) for n in (1, 2, 3) for s in range(12, 22)}
    health = world.health()
    assert not permits(health, 10.5, 11.5, node=3)
    assert permits(health, 11, 13, node=3) and permits(health, 21, 21.5, node=3)
    assert not permits(health, 13, 14, "(refused)", node=3)
    assert not permits(health, 23, 24, node=3)


def test_errors_where_links_are_cut(world):
    world.effect(10, "links", True, links=[[1, 2], [1, 3]])
    world.effect(20, "links", False, links=[[1, 2], [1, 3]])
    health = world.health()
    assert permits(health, 15, 16, node=1) and not permits(health, 15, 16, node=2)
    assert not permits(health, 15, 16, "(connection lost)", node=1)
    assert not permits(health, 22, 23, node=1)


def test_a_link_that_is_cut_is_gone_round(world):
    world.effect(10, "links", True, links=[[1, 2]])
    world.effect(20, "links", False, links=[[1, 2]])
    health = world.health()
    for node in (1, 2, 3):
        assert not permits(health, 12, 22, "timeout", node=node), "through the third"
        assert permits(health, 12, 13, "mode_changing", node=node), "its log stands still"
    assert permits(health, 10.5, 10.7, "no_leader", node=1, wait_ms=200), "it had to be found"


def test_hasty_requests_may_fail_while_a_leader_is_elected(world):
    world.effect(10, "down", True, node=2)
    world.effect(90, "down", False, node=2)
    health = world.health()
    assert permits(health, 11, 11.2, "no_leader", wait_ms=200)
    assert not permits(health, 11, 21, "no_leader", wait_ms=10_000)
    assert not permits(health, 20, 20.2, "no_leader", wait_ms=200), "long after"
    assert not permits(health, 11, 11.2, "clock_skew", wait_ms=200)


def test_a_starved_machine_excuses_what_does_not_wait_for_long(world):
    world.events_made.add("starved", at=20 * NS, end=21 * NS)
    health = world.health()
    assert permits(health, 20, 25, "timeout", wait_ms=5000)
    assert permits(health, 22, 25, "no_leader", wait_ms=3000)
    assert not permits(health, 20, 30, "timeout", wait_ms=10_000)
    assert not permits(health, 40, 45, "timeout", wait_ms=5000)
    assert not permits(health, 20, 21, "(connection lost)", wait_ms=200)


def test_errors_while_the_membership_changes(world):
    world.effect(0, "members", True, ids=[1, 2, 3])
    world.effect(5, "changing", True, lost=3)
    world.effect(5, "down", True, node=3)
    world.effect(6, "members", True, ids=[1, 2])
    world.effect(20, "members", True, ids=[1, 2])
    world.effect(40, "changing", False)
    world.effect(30, "paused", True, node=2)
    world.effect(31, "paused", False, node=2)
    world.unsettled = {(3, second) for second in range(5, 100)}
    health = world.health()
    assert not permits(health, 10, 20, node=1), "the lost one costs nobody an error"
    assert permits(health, 30.5, 40.5, node=1), "two of two are needed"
    assert not permits(health, 50, 60, "mode_changing", node=1), "the removed one does not count"
    assert permits(health, 30, 60, "mode_changing", node=1)


def test_errors_of_clocks(world):
    world.effect(10, "clock", True, node=2)
    world.effect(20, "clock", False, node=2)
    health = world.health()
    assert permits(health, 12, 13, "clock_skew", node=2, clocked=True)
    assert not permits(health, 12, 13, "clock_skew", node=2), "not for segment ids"
    assert not permits(health, 12, 13, "clock_skew", node=1, clocked=True)


# --- the judge ---


def test_nothing_is_found_in_a_good_run(world):
    world.op(1, 1.1, 1, 100)
    world.op(1, 1.1, 101, 50, node=2)
    world.op(2, 2.1, 151, 50, node=2)
    world.op(2, 2.2, 301, 10, node=2, outcome=OK | MORE)
    world.op(3, 3.1, 1, 5, kind=history.STRICT, space=2)
    world.op(4, 4.1, 6, 1, kind=history.STRICT, space=2, node=3)
    stamp = (world.clock_ms + 5000 - 1288834974657) << 22 | 7 << 12
    world.op(5, 5.1, stamp, 3, kind=history.SNOWFLAKE, space=0)
    world.workers = {(7, 1): {"name": "node-1/ab/0", "from_ms": 0, "until_ms": 1 << 50,
                              "state": "held", "last_timestamp_ms": 0}}  # fmt: skip
    world.tables = {n: {"orders": {"max_id": "1000"}} for n in (1, 2, 3)}
    judge = world.judge()
    assert judge.findings == []
    assert sum(space.total() for space in judge.spaces.values()) == 219
    assert sum(judge.requests.values()) == 6


def test_an_id_given_twice_is_found(world):
    world.op(1, 1.1, 1, 100)
    world.op(2, 2.1, 201, 100)
    world.op(2.5, 2.6, 250, 1, node=2)
    [(check, text)] = world.found()
    assert check == "uniqueness" and "250..250 (client 1, node 2" in text and "201..300" in text


def test_ids_that_fall_are_found(world):
    world.op(1, 1.1, 101, 100)
    world.op(1.2, 1.3, 1, 10)
    [(check, text)] = world.found()
    assert check == "order" and "1..10" in text and "came after 101..200" in text


def test_ids_may_fall_between_nodes_and_under_way(world):
    world.op(1, 1.1, 101, 100)
    world.op(1.2, 1.3, 1, 10, node=2)
    world.op(1, 2.0, 11, 10)
    assert world.found() == []


def test_strict_ids_that_fall_are_found(world):
    world.op(1, 1.1, 2, 1, kind=history.STRICT, space=2)
    world.op(1.2, 1.3, 1, 1, kind=history.STRICT, space=2, node=2)
    found = world.found()
    assert {check for check, _ in found} == {"order", "strict"}
    assert any("not_strict" in text for _, text in found)


def test_monotonic_ids_that_fall_are_found(world):
    world.op(1, 1.1, 20, 1, kind=history.MONOTONIC, space=3)
    world.op(1.2, 1.3, 10, 1, kind=history.MONOTONIC, space=3, node=2)
    found = world.found()
    assert {check for check, _ in found} == {"order", "strict"}
    assert any("not_strict" in text for _, text in found)


def test_a_gap_of_monotonic_ids_is_none(world):
    world.op(1, 1.1, 1, 5, kind=history.MONOTONIC, space=3)
    world.op(2, 2.1, 700, 1, kind=history.MONOTONIC, space=3, node=2)
    assert world.found() == []


@pytest.mark.parametrize(
    "first,again,wrong",
    [(900, 900, []), (100, 100, ["not_strict"]), (900, 902, ["other_ids"])],
)
def test_monotonic_ids_under_a_key_are_looked_at(world, first, again, wrong):
    world.op(1, 1.1, 700, 1, kind=history.MONOTONIC, space=3)
    for sent, answer in ((2, first), (3, again)):
        world.journals.append({
            "op": "keyed", "tag": "tickets", "key": "k", "inv": sent * NS, "ret": sent * NS + 1,
            "count": 1, "first": answer, "outcome": OK, "client": 9,
        })  # fmt: skip
    kinds = [text.split(":")[0] for check, text in world.found() if check == "strict"]
    assert [kind for kind in kinds if kind != "check-history"] == wrong


@pytest.mark.parametrize("features", [{"shim"}, {"strict"}, {"strict", "monotonic"}])
def test_the_load_has_what_the_server_can_do(features):
    kinds = {kind for _, kind, _ in load.spaces(features).values()}
    assert (history.STRICT in kinds) == ("strict" in features)
    assert (history.MONOTONIC in kinds) == ("monotonic" in features)
    clients = load.node_clients(1, features) + load.admin_clients(features, 3)
    used = {name for client in clients for _, name in client.get("tags", [])}
    used |= {client["tag"] for client in clients if "tag" in client}
    names = {name for name, _, _ in load.spaces(features).values()}
    assert used <= names
    modes = [client["modes"] for client in clients if "modes" in client]
    assert modes == ([["trend", *sorted(features & {"strict", "monotonic"}, reverse=True)]]
                     if "strict" in features else [])  # fmt: skip


@pytest.mark.parametrize("mode", ["strict", "monotonic"])
def test_old_segments_are_found_while_a_tag_is_strict(world, mode):
    """Of a tag whose mode changes, by the journal of who changes it."""
    world.journals = [
        {"op": "mode", "tag": "orders", "mode": mode, "inv": 10 * NS, "ret": 11 * NS,
         "outcome": OK, "max_id": 500},
        {"op": "mode", "tag": "orders", "mode": "trend", "inv": 20 * NS, "ret": 21 * NS,
         "outcome": OK, "max_id": 600},
    ]  # fmt: skip
    world.op(12, 13, 100, 1, node=1)  # an old segment, before any strict id
    world.op(13.5, 14, 50, 1, node=2)
    world.op(14, 15, 500, 10, node=1)
    world.op(16, 17, 101, 1, node=3)  # and behind one
    world.op(30, 31, 700, 1, node=1)
    world.op(32, 33, 650, 1, node=2)
    [(check, text)] = world.found()
    assert check == "order" and "101..101" in text and "came after 500..509" in text


def test_a_gap_of_strict_ids_is_found(world):
    world.op(1, 1.1, 1, 5, kind=history.STRICT, space=2)
    world.op(2, 2.1, 7, 1, kind=history.STRICT, space=2)
    assert any(c == "strict" and "gap" in text for c, text in world.found())


def test_a_gap_that_an_unanswered_request_may_have_burnt_is_none(world):
    world.effect(0.5, "down", True, node=1)
    world.effect(3, "down", False, node=1)
    world.op(1, 1.1, 1, 5, kind=history.STRICT, space=2)
    world.op(1, 0, 0, 1, kind=history.STRICT, space=2, outcome=UNKNOWN, code=history.LOST)
    world.op(2, 2.1, 7, 1, kind=history.STRICT, space=2)
    assert world.found() == []


def test_keys_go_into_the_strict_history(world, tmp_path):
    for sent, received, outcome in ((1, 2, UNKNOWN), (3, 4, OK), (5, 6, OK)):
        world.journals.append({
            "op": "keyed", "tag": "invoices", "key": "k", "inv": sent, "ret": received,
            "count": 2, "first": 1 if outcome == OK else None, "outcome": outcome, "client": 9,
        })  # fmt: skip
    world.journals.append({"op": "keyed", "tag": "invoices", "key": "x", "outcome": FAIL})
    path = tmp_path / "history"
    world.writer.flush()
    assert strictness.write_history(path, world.records, world.journals, world.kinds) == 3
    assert path.read_text().splitlines() == [
        "tag\tinvoices\tstrict\t1",
        "tag\ttickets\tmonotonic\t1",
        "op\tinvoices\tc9\t1\t-\t-\t2\tk",
        "op\tinvoices\tc9\t3\t4\t1\t2\tk",
        "op\tinvoices\tc9\t5\t6\t1\t2\tk",
    ]
    assert strictness.check(path, world.records, world.journals, world.kinds) == ([], [])


def test_errors_on_well_nodes_are_found_once_for_an_episode(world):
    world.error(5, 6, "timeout")
    world.error(6, 7, "timeout")
    world.error(6, 7, "no_leader", node=2)
    found = world.found()
    assert len(found) == 2 and "and 1 more like it" in found[0][1]
    assert "node 2 was well" in found[1][1] and "no_leader" in found[1][1]


def test_a_late_answer_is_found(world):
    world.op(1, 5, 1, 1, wait_ms=200)
    world.op(1, 2, 2, 1, wait_ms=200)
    [(check, text)] = world.found()
    assert check == "errors" and "a late answer 4.0 s" in text


def test_ids_beyond_what_the_tag_has_granted_are_found(world):
    world.op(1, 2, 95, 10)
    world.tables = {1: {"orders": {"max_id": "100"}}}
    [(check, text)] = world.found()
    assert check == "range" and "104 was handed out, max_id is 100" in text


def test_a_foreign_worker_id_and_a_wrong_time_are_found(world):
    now = world.clock_ms + 1000 - 1288834974657
    world.op(1, 1.1, now << 22 | 7 << 12, 1, node=2, kind=history.SNOWFLAKE, space=0)
    world.op(1, 1.1, now + 3_600_000 << 22 | 8 << 12, 1, kind=history.SNOWFLAKE, space=0)
    world.workers = {(7, 1): {"name": "node-1/ab/0", "from_ms": 0, "until_ms": 1 << 50,
                              "state": "held", "last_timestamp_ms": 0}}  # fmt: skip
    found = world.found()
    assert [check for check, _ in found] == ["snowflake", "snowflake"]
    assert "was node-1/ab/0's" in found[0][1] and "off by 3599900 ms" in found[1][1]


def test_a_slow_recovery_is_found(world):
    world.events_made.add("healed", at=50 * NS, number=3, family="kill", nodes=[1, 2])
    world.unsettled = {(2, second) for second in range(50, 62)}
    [(check, text)] = world.found()
    assert check == "recovery" and "node 2" in text and "12.0 s" in text


def test_a_recovery_on_a_starved_machine_may_take_longer(world):
    world.events_made.add("healed", at=50 * NS, number=3, family="kill", nodes=[2])
    world.events_made.add("starved", at=51 * NS, end=55 * NS)
    world.unsettled = {(2, second) for second in range(50, 62)}
    assert world.found() == []


def test_two_leaders_of_a_term_and_falling_numbers_are_found():
    one = {"t": 1, "node": 1, "life": 1, "state": "leader", "term": 4, "commit": 9, "applied": 9}
    other = {**one, "node": 2, "t": 2}
    fallen = {**one, "t": 3, "state": "follower", "applied": 8}
    reborn = {**fallen, "t": 4, "life": 2, "applied": 1}
    found = wrong_terms([one, other, fallen, reborn])
    assert len(found) == 2
    assert "both led in term 4" in found[0] and "applied fell from 9 to 8" in found[1]


def test_leadership_that_goes_round_is_found():
    calm = [{"t": t * NS, "node": 1, "term": 10 * t} for t in range(1, 60)]
    assert hasty_terms(calm) == []
    jump = [{"t": 70 * NS, "node": 2, "term": 900}]
    found = hasty_terms([*calm, *jump, {"t": 71 * NS, "node": 3, "ok": False}])
    assert len(found) == 1 and "from 590 to 900" in found[0]


def test_tables_that_differ_are_found():
    row = {"step": 1, "description": ""}
    assert wrong_tables({1: {"x": row}, 2: {"x": dict(row)}}) == []
    lost = wrong_tables({1: {"x": row}, 2: {}})
    assert lost == [f"x is {row} on node 1 and None on node 2"]


def grant(op, worker, epoch, first, last, **more):
    wanted = {"worker_id": worker, "epoch": epoch, "from_ms": first, "until_ms": last}
    return {"op": op, "outcome": OK, "client": 3, "grant": wanted, **more}


def test_windows_that_overlap_are_found():
    good = [grant("acquire", 5, 1, 0, 100), grant("renew", 5, 1, 0, 200),
            grant("acquire", 5, 2, 200, 300)]  # fmt: skip
    assert overlapping_windows(good, {}) == []
    bad = [*good[:2], grant("acquire", 5, 2, 150, 300)]
    assert len(overlapping_windows(bad, {})) == 1
    released = [*bad, grant("releasing", 5, 1, 0, 200, last_ms=150)]
    assert overlapping_windows(released, {}) == []
    seen = {(5, 3): {"from_ms": 250, "until_ms": 900, "name": "node-1/x/0", "state": "held",
                     "last_timestamp_ms": 0}}  # fmt: skip
    assert len(overlapping_windows(good, seen)) == 1


def test_records_come_back_and_a_torn_file_is_refused(world):
    world.op(1, 2, 3, 4, node=5, client=6)
    world.writer.flush()
    [op] = history.read(world.records[0])
    assert (op.inv_ns, op.ret_ns) == (NS, 2 * NS)
    assert (op.first, op.count, op.node, op.client) == (3, 4, 5, 6)
    with open(world.records[0], "ab") as file:
        file.write(b"torn")
    with pytest.raises(ValueError, match="within a record"):
        list(history.read(world.records[0]))


# --- the page ---


def made_up_page(world, tmp_path, findings):
    world.op(1, 1.2, 1, 100)
    world.error(12, 13, "timeout", node=2)
    world.events_made.add("episode", at=10 * NS, number=0, family="kill")
    world.events_made.add("begin", at=11 * NS, fault=1, kind="kill", nodes=[2], text="SIGKILL",
                          begin=10 * NS)  # fmt: skip
    world.effect(10, "down", True, node=2)
    world.effect(14, "down", False, node=2)
    world.events_made.add("end", at=14 * NS, fault=1)
    world.events_made.add("healed", at=14 * NS, number=0, family="kill", nodes=[1, 2, 3])
    world.texts = findings
    judge = world.judge()
    world.plan = schedule.Plan(5, 3, {"shim"})
    world.settings, world.version = {"http-loops": 2}, "0.1.0 (</script>)"
    world.options = type("Options", (), {"out": str(tmp_path)})
    summary = {"seed": 5, "nodes": 3, "seconds": 100, "ids": 100, "requests": 2, "episodes": 1,
               "faults": 1, "worst_recovery_s": 1.0, "findings": len(judge.findings),
               "at": "today"}  # fmt: skip
    path = report.write_report(world, judge, summary, "make chaos SEED=5")
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_the_page_has_it_all_and_nothing_from_outside(world, tmp_path):
    page = made_up_page(world, tmp_path, [])
    assert "<title>leafd chaos, seed 5: nothing found</title>" in page
    text = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    data = json.loads(text)
    assert data["version"] == "0.1.0 (</script>)"
    assert data["bars"] == [{"kind": "kill", "group": "process", "nodes": [2], "text": "SIGKILL",
                             "begin": 10.0, "end": 14.0}]  # fmt: skip
    assert data["episodes"][0]["taken"] == {"1": 0.0, "2": 0.0, "3": 0.0}
    assert data["series"]["1"]["segment"]["ids"][1] == 100
    assert data["series"]["1"]["segment"]["p50"][1] == pytest.approx(200.0)
    assert data["errors"] == [{"node": 2, "kind": "segment", "code": "timeout", "count": 1}]
    assert data["unwell"]["2"] == [[10.0, 14.0]]
    style, script = report.read_part("report.css"), report.read_part("report.js")
    for part in (style, script, report.read_part("report.html")):
        for mark in ("http://", "https://", " src=", "@import", "url("):
            assert mark not in part.replace("http://www.w3.org/2000/svg", ""), mark


def test_the_page_says_what_was_found(world, tmp_path):
    page = made_up_page(world, tmp_path, [("processes", "node 1 <died>")])
    assert "<title>leafd chaos, seed 5: 1 finding</title>" in page
    assert "node 1 \\u003cdied>" in page


def test_a_run_that_is_told_to_stop_ends(binary, tmp_path):
    """Ctrl-C ends the faults early; what there is is judged."""
    import signal

    command = [sys.executable, os.path.join(os.path.dirname(__file__), "chaos", "run.py")]
    command += ["--out", str(tmp_path), "--seed", "3", "--only", "slow links", "--plain-disks"]
    log = tmp_path / "said"
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_until(lambda: "episode 0" in log.read_text(), 30, "the first episode")
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 0, log.read_text()
        assert "nothing found" in log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
