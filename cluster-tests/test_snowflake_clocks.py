"""Snowflake ids while clocks are wrong: set back, set ahead, by milliseconds and by 50 years, while
a node runs and while it is down. What every test asks for: no id twice over the whole run, the node
with the wrong clock says so and recovers by itself, and the others do not notice.
"""

import random
import subprocess
import sys
import time

import pytest

from chaos.links import Links
from checker import History
from clockfile import YEARS_50, ClockFile, find_libraries, own_clocks, remove_leftovers
from cluster import FAST, STEADY
from load import wait_all_serve, wait_taken
from snowflakes import SPACE, SnowLoad, decode, take, wait_refused, wait_served
from wait import ran_s, wait_until

DAY_MS = 86_400_000
# A clock that is back is refused until it has caught up, and then it serves although it is late:
# with the default, a clock 2 s off the others is refused as well.
TOLERANT = {**FAST, "snowflake-clock-threshold-ms": 8000}


def now_ms():
    return time.time_ns() // 1_000_000


@pytest.fixture(autouse=True)
def no_leftovers():
    yield
    remove_leftovers()


class World:
    """A cluster whose nodes have clocks of their own, under load, and all that was handed out."""

    def __init__(self, cluster, tag):
        self.cluster = cluster
        self.tag = tag
        self.clocks = own_clocks(cluster)
        self.history = History()
        self.load = SnowLoad(self.history)
        for node in cluster.nodes:
            self.load.add(node, 1, "plain", depth=4, rate=1000.0)
            self.load.add(node, 1000, "range", rate=20_000.0)
        self.probes = {node: self.history.track("probe", node.id, SPACE) for node in cluster.nodes}

    def start(self):
        self.cluster.start()
        self.cluster.create_tag(self.tag)
        self.wait_served(*self.cluster.nodes)
        return self

    def __enter__(self):
        self.load.__enter__()
        wait_all_serve(self.load)
        return self

    def __exit__(self, *unused):
        self.load.__exit__(*unused)

    def set_clock(self, node, seconds, *codes):
        """From now on the node's clients may be refused with these codes."""
        self.load.may_refuse[node.id] = set(codes)
        self.clocks[node.id].set(seconds)

    def wait_served(self, *nodes, timeout=10.0):
        wait_served(nodes, timeout, track_of=self.probes.get)

    def wait_refused(self, node, code, timeout=10.0):
        return wait_refused(node, code, timeout, self.probes[node])

    def wait_recovered(self, node, timeout=10.0):
        """The node serves again, all its clients, and no refusal is expected any more."""
        self.wait_served(node, timeout=timeout)
        wait_until(lambda: check_of(node)["ok"], 5, f"{node}: the check is fine")
        wait_all_serve(self.load)
        self.load.may_refuse[node.id] = set()

    def others_go_on(self, node):
        """The clients of the other nodes get ids, and the node with the wrong clock segments."""
        before = {client: client.track.count for client in self.load.clients}
        others = [client for client in self.load.clients if client.node is not node]
        wait_until(
            lambda: all(client.track.count >= before[client] + 1000 for client in others),
            20,
            "ids of the other nodes",
        )
        for other in self.cluster.others(node):
            assert not self.load.refusals(other)
        assert node.get(f"/api/segment/get/{self.tag}").status == 200

    def last_ms(self, node):
        tracks = [t for t in self.history.tracks if t.node_id == node.id and t.lasts]
        return decode(max(max(track.lasts) for track in tracks)).ms

    def finish(self):
        self.load.finish()


@pytest.fixture
def make_world(make_cluster, tag):
    return lambda settings=FAST: World(make_cluster(settings=settings, start=False), tag)


def check_of(node):
    """What /readyz?verbose says about snowflake ids."""
    answer = node.get("/readyz?verbose")
    return next(check for check in answer.json()["checks"] if check["name"] == "snowflake")


def check_shown(node, code, log_from):
    """A refusal shows where people and machines look."""
    check = wait_until(lambda: not (c := check_of(node))["ok"] and c, 5, "the check fails")
    assert not check["needed"], "segments are served: the node stays in service"
    assert check["code"] == code and check["reason"], check
    assert node.get("/readyz").status == 200
    node.wait_log(rf"level=warn.*ids are refused.*code={code}", start=log_from)
    check_metric(node, code)


def check_metric(node, code):
    answer = node.get("/metrics")
    assert answer.status == 200
    shown = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if line[:1] != "#")
    refused = {name: value for name, value in shown.items() if "snowflake_refused" in name}
    assert refused.get(f'leafd_snowflake_refused{{code="{code}"}}') == "1", refused


def pick(cluster, leads):
    return cluster.leader() if leads else cluster.followers()[0]


def test_only_the_wall_clock_is_set(tmp_path):
    """What all of this rests on: timers and deadlines see nothing of it."""
    clock = ClockFile(str(tmp_path / "clock"), find_libraries(sys.executable))
    clock.set(YEARS_50)
    code = (
        "import time\n"
        "print(time.time(), time.clock_gettime(time.CLOCK_MONOTONIC),"
        " time.clock_gettime(time.CLOCK_BOOTTIME))"
    )
    made = subprocess.run(
        [*clock.prefix(), sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    wall, monotonic, boot = map(float, made.stdout.split())
    assert abs(wall - time.time() - YEARS_50) < 30
    assert abs(monotonic - time.clock_gettime(time.CLOCK_MONOTONIC)) < 30
    assert abs(boot - time.clock_gettime(time.CLOCK_BOOTTIME)) < 30


# --- set back ---


def test_three_milliseconds_back(make_world):
    """So little is waited for: nobody gets an error."""
    world = make_world().start()
    with world:
        for round_number in range(15):
            for node in world.cluster.nodes:
                world.set_clock(node, -0.003 if round_number % 2 == 0 else 0)
            wait_all_serve(world.load)
        world.finish()
    for node in world.cluster.nodes:
        assert not world.load.refusals(node)
        assert "ids are refused" not in node.log().split("ids are served", 1)[1]


@pytest.mark.quiet
@pytest.mark.parametrize("leads", [True, False])
# Shows P6-clock.
def test_two_seconds_back(make_world, leads):
    world = make_world({**TOLERANT, **STEADY}).start()
    cluster = world.cluster
    node = pick(cluster, leads)
    term = node.cluster_status()["term"]
    with world:
        log_from = len(node.log())
        world.set_clock(node, -2, "clock_backwards")
        began, ran = time.monotonic(), ran_s()
        answer = world.wait_refused(node, "clock_backwards", 2)
        assert answer.json()["message"]
        check_shown(node, "clock_backwards", log_from)
        # By itself, when the clock has caught up.
        world.wait_served(node, timeout=5)
        assert 1.5 < time.monotonic() - began and ran_s() - ran < 4
        world.others_go_on(node)
        world.wait_recovered(node)
        node.wait_log("ids are served", start=log_from)
        assert world.load.refusals(node)["clock_backwards"] > 0
        # Right again: a step ahead within the threshold.
        world.set_clock(node, 0)
        wait_all_serve(world.load)
        world.finish()
    assert node.cluster_status()["term"] == term


# Shows P6-clock.
def test_an_hour_back(make_world):
    world = make_world().start()
    node = world.cluster.leader()
    with world:
        log_from = len(node.log())
        world.set_clock(node, -3600, "clock_backwards")
        world.wait_refused(node, "clock_backwards", 2)
        check_shown(node, "clock_backwards", log_from)
        world.others_go_on(node)
        world.wait_refused(node, "clock_backwards", 0)
        world.set_clock(node, 0, "clock_backwards")
        world.wait_recovered(node, 3)
        world.finish()


@pytest.mark.quiet
@pytest.mark.parametrize("seconds", [2, 4])
# Shows P1-clock, lesson-restart-clock.
def test_set_back_while_it_is_down(make_world, seconds):
    """The hole of a generator that looks at its clock alone: the times after the restart are those
    that were used before it."""
    world = make_world(TOLERANT).start()
    node = world.cluster.leader()
    with world:
        log_from = len(node.log())
        wait_taken(world.load, 20_000)
        node.kill9()
        killed, ran = time.monotonic(), ran_s()
        last_ms = world.last_ms(node)
        world.set_clock(node, -seconds, "clock_backwards")
        node.start().wait_ready()
        if seconds > 3:
            world.wait_refused(node, "clock_backwards", 2)
            check_shown(node, "clock_backwards", log_from)
            waits = re_wait_until_ms(node.log()[log_from:])
            assert last_ms <= waits <= last_ms + 1200, "the log says what is waited for"
        world.others_go_on(node)
        world.wait_served(node, timeout=seconds + 3)
        # The clock had to come back to the mark, which was at most a second ahead.
        assert seconds - 0.5 < time.monotonic() - killed and ran_s() - ran < seconds + 3
        first_ms = decode(world.probes[node].firsts[-1]).ms
        assert last_ms < first_ms <= now_ms() - (seconds - 0.5) * 1000
        world.wait_recovered(node)
        world.finish()


def re_wait_until_ms(log):
    line = next(line for line in log.splitlines() if "ids are refused" in line)
    fields = dict(field.split("=", 1) for field in line.split() if "=" in field)
    return int(fields["wait_until_ms"])


# --- set ahead ---


def no_row_of_the_future(node):
    for row in node.get_json("/api/workers?limit=1024")["workers"]:
        assert row["until_ms"] < now_ms() + DAY_MS, row


@pytest.mark.quiet
@pytest.mark.parametrize("leads", [True, False])
# Shows P6-clock.
def test_fifty_years_ahead(make_world, leads):
    world = make_world(STEADY).start()
    node = pick(world.cluster, leads)
    term = node.cluster_status()["term"]
    with world:
        log_from = len(node.log())
        world.set_clock(node, YEARS_50, "clock_skew", "window_expired", "timeout")
        answer = world.wait_refused(node, "clock_skew", 3)
        assert answer.json()["message"]
        check_shown(node, "clock_skew", log_from)
        world.others_go_on(node)
        for other in world.cluster.others(node):
            no_row_of_the_future(other)
        world.wait_refused(node, "clock_skew", 0)
        world.set_clock(node, 0, "clock_skew", "window_expired", "clock_backwards")
        world.wait_recovered(node, 5)
        assert world.last_ms(node) <= now_ms()
        world.finish()
    assert node.cluster_status()["term"] == term, "timers do not ask the wall clock"


# Shows P1-clock, lesson-restart-clock.
def test_fifty_years_ahead_at_start(make_world):
    world = make_world().start()
    node = world.cluster.followers()[0]
    with world:
        node.kill9()
        log_from = len(node.log())
        world.set_clock(node, YEARS_50, "clock_skew", "window_expired", "timeout")
        node.start().wait_ready()
        world.wait_refused(node, "clock_skew", 5)
        check_shown(node, "clock_skew", log_from)
        world.others_go_on(node)
        no_row_of_the_future(node)
        world.set_clock(node, 0, "clock_skew", "window_expired", "clock_backwards")
        world.wait_recovered(node, 5)
        world.finish()


@pytest.mark.parametrize("seconds", [YEARS_50, 1800, -31_536_000])
# Shows P6-clock, lesson-one-clock.
def test_first_leader_is_wrong(make_world, seconds):
    """The very first time that the cluster's log has comes from a clock that is wrong. Windows are
    over when they are over all the same, and nobody's worker id is given away before."""
    world = make_world()
    wrong, one, two = world.cluster.nodes
    for node in (one, two):
        node.settings["raft-election-ms"] = 8000
    world.clocks[wrong.id].set(seconds)
    world.cluster.start()
    assert world.cluster.leader() is wrong
    world.cluster.create_tag(world.tag)
    world.wait_served(one, two)
    world.wait_refused(wrong, "clock_skew")
    body = {"name": "first", "address": "", "window_ms": 60_000, "worker_id": 500}
    answer = one.http("POST", "/api/workers", body)
    assert answer.status == 201, answer
    assert now_ms() + 50_000 < answer.json()["until_ms"] < now_ms() + 62_000, answer
    answer = two.http("POST", "/api/workers", {**body, "name": "second"})
    assert answer.status == 409 and answer.code == "conflict", answer
    no_row_of_the_future(one)
    world.clocks[wrong.id].set(0)
    world.wait_served(wrong)
    for node in world.cluster.nodes:
        take(node, world.probes[node], 10_000, "range")
    world.history.check()


@pytest.fixture
def links():
    made = Links()
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [YEARS_50, 1800])
# Shows P6-clock.
def test_the_first_time_waits_for_the_others_clocks(make_world, links, seconds):
    """The links are so slow that a clock's answer tells nothing, and the first leader is wrong: the
    log gets no time from it alone, and so nobody a worker id, until a majority was heard."""
    world = make_world()
    wrong, one, two = world.cluster.nodes
    for node in (wrong, one, two):
        node.settings["raft-election-ms"] = 4000 if node is wrong else 20_000
    world.clocks[wrong.id].set(seconds)
    links.attach(world.cluster)
    slow = [(a.id, b.id) for a in world.cluster.nodes for b in world.cluster.nodes if a is not b]
    links.shape(slow, delay_ms=300)
    world.cluster.start()
    assert world.cluster.leader() is wrong
    # Each of these stands in the log behind all that the leader had to say before.
    for number in range(3):
        world.cluster.create_tag(f"{world.tag}.{number}", wrong)
    body = {"name": "first", "address": "", "window_ms": 60_000, "worker_id": 500}
    answer = one.http("POST", "/api/workers", body)
    assert answer.status == 503 and "the cluster has no time" in answer.json()["message"], answer
    assert world.cluster.leader() is wrong
    links.restore(slow)
    answer = wait_until(
        lambda: (a := one.http("POST", "/api/workers", body)).status == 201 and a, 20, "a time"
    )
    assert now_ms() + 50_000 < answer.json()["until_ms"] < now_ms() + 62_000, answer
    answer = two.http("POST", "/api/workers", {**body, "name": "second"})
    assert answer.status == 409 and answer.code == "conflict", answer
    no_row_of_the_future(one)
    world.wait_served(one, two)


def test_five_minutes_ahead_at_start(make_world):
    """Within the window that the disk remembers, so that only the other nodes' clocks can tell:
    they are asked before the first id, and no time ahead is used up."""
    world = make_world().start()
    node = world.cluster.followers()[0]
    take(node, world.probes[node], 1000, "range")
    node.kill9()
    world.clocks[node.id].set(300)
    node.start().wait_ready()
    world.wait_refused(node, "clock_skew", 5)
    assert world.last_ms(node) < now_ms() + 5000, "ids of a time that has not come"
    world.clocks[node.id].set(0)
    world.wait_served(node, timeout=5)
    world.history.check()


@pytest.mark.quiet
# Shows P6-clock.
def test_two_clocks_an_hour_apart(make_world):
    """The third is right: it serves, and the others do when they are set right."""
    world = make_world()
    late, right, early = world.cluster.nodes
    world.clocks[late.id].set(-1800)
    world.clocks[early.id].set(1800)
    for node in (late, early):
        node.settings["raft-election-ms"] = 8000
    world.cluster.start()
    assert world.cluster.leader() is right
    world.cluster.create_tag(world.tag)
    world.wait_served(right)
    for node in (late, early):
        world.wait_refused(node, "clock_skew", 5)
    before_ms = now_ms()
    for _ in range(10):
        take(right, world.probes[right], 1000, "range")
    assert before_ms - 1000 < decode(world.probes[right].lasts[-1]).ms < now_ms() + 1000
    no_row_of_the_future(right)
    # Their times of before may have been used: nobody waits for more than that.
    for node in (late, early):
        world.clocks[node.id].set(0)
    for node in world.cluster.nodes:
        world.wait_served(node)
        take(node, world.probes[node], 10_000, "range")
    world.history.check()


# --- everything ---

TOTAL = 10_000_000


class Storm:
    """Faults one after the other; each leaves the cluster whole again."""

    REFUSALS = ("clock_backwards", "clock_skew", "window_expired", "timeout")

    def __init__(self, world, source):
        self.world = world
        self.cluster = world.cluster
        self.source = source

    def kill_leader(self):
        killed = self.cluster.leader()
        killed.kill9()
        wait_taken(self.world.load, 100_000)
        killed.start().wait_ready()

    def clean_restart(self):
        node = self.source.choice(self.cluster.nodes)
        node.stop()
        wait_taken(self.world.load, 100_000)
        node.start().wait_ready()

    def kill_all(self):
        self.cluster.kill_all()
        self.cluster.start()

    def clock_jumps(self):
        node = self.source.choice(self.cluster.nodes)
        for _ in range(3):
            seconds = self.source.choice([-3600, -2, -0.05, 0.5, 2, 3600, YEARS_50])
            self.world.set_clock(node, seconds, *self.REFUSALS)
            wait_taken(self.world.load, 100_000)
        self.world.set_clock(node, 0, *self.REFUSALS)
        self.world.wait_recovered(node)

    def restart_with_another_clock(self):
        node = self.source.choice(self.cluster.nodes)
        node.kill9()
        self.world.set_clock(node, self.source.choice([-3600, -2, 3600]), *self.REFUSALS)
        node.start().wait_ready()
        wait_taken(self.world.load, 100_000)
        node.kill9()
        self.world.set_clock(node, 0, *self.REFUSALS)
        node.start().wait_ready()
        self.world.wait_recovered(node)

    def run(self):
        faults = [
            self.kill_leader,
            self.clock_jumps,
            self.kill_all,
            self.restart_with_another_clock,
            self.clean_restart,
        ]
        while True:
            for fault in faults:
                print(f"{time.monotonic():.1f} {fault.__name__}")
                fault()
                wait_all_serve(self.world.load)
            if self.world.load.taken() >= TOTAL:
                return


@pytest.mark.bound(90)
# Shows P1-clock.
def test_ten_million_ids_through_a_storm(make_world):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    world = make_world()
    for node in world.cluster.nodes:
        world.load.add(node, 100_000, "range", rate=250_000.0)
        world.load.add(node, 10_000, "range", rate=100_000.0)
    world.start()
    with world:
        Storm(world, random.Random(seed)).run()
        world.finish()
    assert world.history.total() >= TOTAL
