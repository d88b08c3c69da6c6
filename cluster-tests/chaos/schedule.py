"""What is done when: a pure function of the seed, the number of nodes and what the machine can do.

The happy path: settings(seed) for the nodes, and episode(plan, number) for number = 0, 1, ... An
episode is a dict with a family, its faults, and the calm after it; a fault is a dict with its kind,
the times of its begin and end from the episode's begin, whom it strikes, and what it does.

The families come as a shuffled deck, so that each is met once before one is met twice. A target may
be "leader" or "follower": who that is shows when the fault strikes, and stands in the events; or
"struck", which is the one that the episode's first fault has hit, or "new", one that joins.

Crashes, pauses and cuts may hit a majority or all. What costs a node its data hits one node at a
time, and the next only when that one is whole again.
"""

import random

YEARS_50 = 1_576_800_000


class Plan:
    """What a schedule depends on."""

    def __init__(self, seed, nodes, features, families=()):
        self.seed = seed
        self.nodes = nodes
        self.features = sorted(features)
        self.families = list(families)  # only these, if any are named

    def as_dict(self):
        return {
            "seed": self.seed,
            "nodes": self.nodes,
            "features": self.features,
            "families": self.families,
        }


class Draw:
    """Random choices of one episode."""

    def __init__(self, plan, number):
        self.plan = plan
        self.random = random.Random(f"chaos/{plan.seed}/{plan.nodes}/{number}")
        self.ids = list(range(1, plan.nodes + 1))

    def between(self, low, high):
        return round(self.random.uniform(low, high), 2)

    def choice(self, options):
        return self.random.choice(options)

    def some(self, count):
        return self.random.sample(self.ids, count)

    def target(self):
        """The leader about as often as all others together."""
        draw = self.random.random()
        if draw < 0.45:
            return "leader"
        return "follower" if draw < 0.6 else self.choice(self.ids)

    @property
    def majority(self):
        return self.plan.nodes // 2 + 1

    @property
    def minority(self):
        return (self.plan.nodes - 1) // 2


def fault(kind, begin, length, **what):
    return {"kind": kind, "begin": round(begin, 2), "end": round(begin + length, 2), **what}


# --- processes ---


def kill(draw):
    return [fault("kill", 0, draw.between(0, 5), node=draw.target())]


def kill_minority(draw):
    first = fault("kill", 0, draw.between(1, 4), node="leader")
    others = [fault("kill", draw.between(0.1, 2), draw.between(1, 4), node="follower")
              for _ in range(draw.minority - 1)]  # fmt: skip
    return [first, *others]


def kill_majority(draw):
    return [fault("kill", 0, draw.between(0.2, 4), node=n) for n in draw.some(draw.majority)]


def kill_all(draw):
    return [fault("kill", 0, draw.between(0.1, 1.5), node=n) for n in draw.ids]


def crash_loop(draw):
    node, at, faults = draw.choice(draw.ids), 0.0, []
    for _ in range(draw.random.randint(3, 6)):
        faults.append(fault("kill", at, draw.between(0, 0.2), node=node))
        at += draw.between(0.4, 1.5)
    return faults


def storm(draw):
    at, faults = 0.0, []
    for turn in range(draw.random.randint(5, 8)):
        node = draw.ids[turn % len(draw.ids)]
        faults.append(fault("kill", at, draw.between(0, 0.4), node=node))
        at += draw.between(0.6, 1.6)
    return faults


def stop(draw):
    return [fault("stop", 0, draw.between(0.1, 3), node=draw.target())]


def stop_all(draw):
    return [fault("stop_all", 0, draw.between(0.2, 1.5), nodes=draw.some(len(draw.ids)))]


def rolling_restart(draw):
    at, faults = 0.0, []
    for node in draw.some(len(draw.ids)):
        faults.append(fault("stop", at, 0.2, node=node))
        at += draw.between(2, 3)
    return faults


def pause(draw):
    return [fault("pause", 0, draw.between(0.3, 6), node=draw.target())]


def pause_leader(draw):
    return [fault("pause", 0, draw.between(3, 6), node="leader")]


def pause_many(draw):
    count = draw.choice([draw.majority, len(draw.ids)])
    return [fault("pause", 0, draw.between(1, 4), node=node) for node in draw.some(count)]


def pause_and_kill(draw):
    first = fault("pause", 0, draw.between(2, 4), node="leader")
    return [first, fault("kill", draw.between(0.3, 1.5), draw.between(0.2, 2), node="follower")]


def stutter(draw):
    return [fault("stutter", 0, draw.between(3, 5), node=draw.target(), stopped_ms=40, runs_ms=20)]


# --- links ---


def isolate(draw):
    return [fault("cut", 0, draw.between(2, 7), shape="isolate", node=draw.target())]


def isolate_leader(draw):
    return [fault("cut", 0, draw.between(3, 6), shape="isolate", node="leader")]


def mute_or_deaf(draw):
    shape = draw.choice(["mute", "deaf"])
    return [fault("cut", 0, draw.between(2, 6), shape=shape, node=draw.target())]


def one_way(draw):
    return [fault("cut", 0, draw.between(2, 6), shape="one-way", pair=draw.some(2))]


def bridge(draw):
    return [fault("cut", 0, draw.between(3, 6), shape="pair", pair=draw.some(2))]


def halves(draw):
    group = draw.some(draw.random.randint(1, draw.minority))
    return [fault("cut", 0, draw.between(2, 6), shape="group", group=group)]


def all_apart(draw):
    return [fault("cut", 0, draw.between(1, 4), shape="all")]


def ring(draw):
    return [fault("cut", 0, draw.between(3, 6), shape="ring", order=draw.some(len(draw.ids)))]


def flapping(draw):
    node, at, faults = draw.choice(draw.ids), 0.0, []
    for _ in range(draw.random.randint(4, 7)):
        length = draw.between(0.2, 0.9)
        faults.append(fault("cut", at, length, shape="isolate", node=node))
        at += length + draw.between(0.1, 0.6)
    return faults


def slow_links(draw):
    delay = draw.choice([5, 25, 60, 150])
    jitter = draw.choice([0, delay // 2])
    return [fault("links", 0, draw.between(3, 6), scope=link_scope(draw), delay_ms=delay,
                  jitter_ms=jitter)]  # fmt: skip


def narrow_links(draw):
    rate = draw.choice([4, 16, 64]) << 10
    return [fault("links", 0, draw.between(3, 6), scope=link_scope(draw), bytes_per_s=rate)]


def corrupt_links(draw):
    every = draw.choice([2000, 10_000, 50_000])
    return [fault("links", 0, draw.between(3, 6), scope=link_scope(draw), corrupt_bytes=every)]


def resets(draw):
    return [fault("resets", 0, draw.between(3, 5), scope=link_scope(draw),
                  every_ms=draw.choice([100, 300, 1000]))]  # fmt: skip


def link_scope(draw):
    """Which links: all, those of a node, or one direction of one."""
    return draw.choice(["all", ["node", draw.target()], ["link", *draw.some(2)]])


# --- disks ---


def slow_disk(draw):
    delay = draw.choice([10, 30, 100, 300])
    return [fault("slow_disk", 0, draw.between(3, 6), node=draw.target(), delay_ms=delay,
                  calls=draw.choice(["sync", "write", "all"]))]  # fmt: skip


def very_slow_disk(draw):
    return [fault("slow_disk", 0, draw.between(4, 7), node=draw.target(), calls="sync",
                  delay_ms=draw.choice([1000, 2000]))]  # fmt: skip


def hanging_disk(draw):
    return [fault("slow_disk", 0, draw.between(3, 6), node=draw.target(), calls="all",
                  delay_ms=60_000)]  # fmt: skip


def failing_disk(draw):
    call = draw.choice(["fdatasync", "sync", "write", "pwrite", "writev"])
    if call == "writev":
        call = "write"
    how = draw.choice(["", "", " percent=20", " skip=5"])
    short = " short=1" if call in ("write", "pwrite") and draw.random.random() < 0.5 else ""
    rule = f"{call} error={draw.choice(['EIO', 'EIO', 'ENOSPC'])}{how}{short}"
    return [fault("failing_disk", 0, draw.between(0.2, 3), node=draw.target(), rule=rule)]


def full_disk(draw):
    return [fault("full_disk", 0, draw.between(2, 4), node=draw.target())]


def low_disk(draw):
    return [fault("low_disk", 0, draw.between(3, 5), node=draw.target(), leave_mib=40)]


def power_cut(draw):
    return [fault("power_cut", 0, draw.between(0.2, 3), node=draw.target())]


def power_cut_all(draw):
    return [fault("power_cut", 0, draw.between(0.3, 1), node=node) for node in draw.ids]


DAMAGES = ["missing", "empty", "cut", "torn", "zeros", "meta", "pages", "bit"]
# What the operator does then; without the routes of members a node always gets its copy back.
AFTERWARDS = ["restore", "rejoin"]
# These may strike where nothing is: at the end of a file LMDB may have free pages.
MAY_BE_HARMLESS = {"torn", "bit"}


def damage(draw):
    how = draw.choice(DAMAGES)
    return [fault("damage", 0, draw.between(0.5, 2), node=draw.target(), how=how,
                  seed=draw.random.randrange(1 << 32), then=draw.choice(AFTERWARDS))]  # fmt: skip


def wipe(draw):
    return [fault("wipe", 0, draw.between(0.5, 2), node=draw.target(),
                  then=draw.choice(AFTERWARDS))]  # fmt: skip


def old_copy(draw):
    return [fault("old_copy", 0, draw.between(0.5, 2), node=draw.target(),
                  after=draw.between(0.5, 2), then=draw.choice(AFTERWARDS))]  # fmt: skip


# --- clocks ---


def clock_jump(draw):
    seconds = draw.choice([-3600, -2, -0.5, -0.004, 0.3, 0.9, 1.5, 3600, YEARS_50])
    return [fault("clock", 0, draw.between(2, 5), node=draw.target(), seconds=seconds)]


def clock_at_restart(draw):
    # Those a little back are trusted: what an earlier life stamped has to be known otherwise.
    seconds = draw.choice([-3600, -2, -0.95, -0.95, -0.6, 0.8, 2, 3600, YEARS_50])
    node = draw.choice(draw.ids)
    return [fault("kill", 0, draw.choice([0.02, 0.05, 0.5]), node=node),
            fault("clock", 0, draw.between(2, 5), node=node, seconds=seconds)]  # fmt: skip


def clock_strobe(draw):
    return [fault("strobe", 0, draw.between(3, 5), node=draw.target(), seconds=0.2)]


def clock_all_back(draw):
    return [fault("clock", 0, draw.between(2, 4), node="all", seconds=-draw.between(0.2, 2))]


# --- members ---


def transfer(draw):
    count = draw.random.randint(1, 4)
    return [fault("transfer", 0.8 * i, 0.3, to=draw.choice(draw.ids)) for i in range(count)]


def replace_node(draw):
    return [fault("replace", 0, draw.between(0.5, 2), node=draw.target())]


def grow_and_shrink(draw):
    return [fault("grow", 0, draw.between(1, 3), remove=draw.choice(["new", "leader", "follower"]),
                  revive=draw.choice([True, False]))]  # fmt: skip


def grow_under_faults(draw):
    kind = draw.choice(["kill", "kill", "pause", "cut"])
    more = {"shape": "isolate"} if kind == "cut" else {}
    whom = ["leader", "follower"] + ["new"] * (kind == "kill")
    other = fault(kind, draw.between(0, 1), draw.between(0.5, 3), node=draw.choice(whom), **more)
    return [*grow_and_shrink(draw), other]


# --- two at once ---


def slow_disk_and_kill(draw):
    return [fault("slow_disk", 0, draw.between(4, 6), node="follower", calls="sync", delay_ms=100),
            fault("kill", draw.between(0.5, 2), draw.between(0.5, 2), node="leader")]  # fmt: skip


def slow_links_and_kill(draw):
    return [fault("links", 0, draw.between(4, 6), scope="all", delay_ms=20, jitter_ms=20),
            fault("kill", draw.between(0.5, 2), draw.between(0.5, 2), node="leader")]  # fmt: skip


def cut_and_clock(draw):
    return [fault("cut", 0, draw.between(3, 5), shape="isolate", node="leader"),
            fault("clock", draw.between(0.5, 1), draw.between(1, 3), node="follower",
                  seconds=draw.choice([-2, 0.9, 3600]))]  # fmt: skip


def cut_and_crash(draw):
    """An ex-leader that is restarted while it is cut off, and comes back into a new term."""
    return [fault("cut", 0, draw.between(3, 5), shape="isolate", node="leader"),
            fault("kill", draw.between(1, 2), draw.between(0.2, 1), node="struck")]  # fmt: skip


# Family: (function, feature that it needs or None, times in the deck, nodes at least)
FAMILIES = {
    "kill": (kill, None, 2, 1),
    "kill minority": (kill_minority, None, 1, 5),
    "kill majority": (kill_majority, None, 1, 3),
    "kill all": (kill_all, None, 1, 1),
    "crash loop": (crash_loop, None, 1, 1),
    "restart storm": (storm, None, 1, 1),
    "stop": (stop, None, 1, 1),
    "stop all": (stop_all, None, 1, 1),
    "rolling restart": (rolling_restart, None, 1, 3),
    "pause": (pause, None, 1, 1),
    "pause leader": (pause_leader, None, 1, 3),
    "pause many": (pause_many, None, 1, 3),
    "pause and kill": (pause_and_kill, None, 1, 3),
    "stutter": (stutter, None, 1, 1),
    "isolate": (isolate, None, 1, 3),
    "isolate leader": (isolate_leader, None, 1, 3),
    "mute or deaf": (mute_or_deaf, None, 1, 3),
    "one way": (one_way, None, 1, 3),
    "bridge": (bridge, None, 1, 3),
    "halves": (halves, None, 1, 5),
    "all apart": (all_apart, None, 1, 3),
    "ring": (ring, None, 1, 5),
    "flapping": (flapping, None, 1, 3),
    "slow links": (slow_links, None, 1, 3),
    "narrow links": (narrow_links, None, 1, 3),
    "corrupt links": (corrupt_links, None, 1, 3),
    "resets": (resets, None, 1, 3),
    "slow disk": (slow_disk, "shim", 1, 1),
    "very slow disk": (very_slow_disk, "shim", 1, 3),
    "hanging disk": (hanging_disk, "shim", 1, 3),
    "failing disk": (failing_disk, "shim", 2, 1),
    "full disk": (full_disk, "images", 1, 3),
    "low disk": (low_disk, "images", 1, 3),
    "power cut": (power_cut, "images", 1, 1),
    "power cut all": (power_cut_all, "images", 1, 1),
    "damage": (damage, None, 2, 3),
    "wipe": (wipe, None, 1, 3),
    "old copy": (old_copy, "members", 1, 3),
    "clock jump": (clock_jump, "clocks", 2, 3),
    "clock at restart": (clock_at_restart, "clocks", 1, 3),
    "clock strobe": (clock_strobe, "clocks", 1, 3),
    "clock all back": (clock_all_back, "clocks", 1, 3),
    "transfer": (transfer, "transfer", 1, 3),
    "replace node": (replace_node, "members", 1, 3),
    "grow and shrink": (grow_and_shrink, "members", 1, 3),
    "members under faults": (grow_under_faults, "members", 1, 3),
    "slow disk and kill": (slow_disk_and_kill, "shim", 1, 3),
    "slow links and kill": (slow_links_and_kill, None, 1, 3),
    "cut and clock": (cut_and_clock, "clocks", 1, 3),
    "cut and crash": (cut_and_crash, None, 1, 3),
}


def deck(plan):
    """The families that this plan can have, each as often as it is in the deck."""
    cards = []
    for name, (_, feature, times, nodes) in FAMILIES.items():
        if plan.families and name not in plan.families:
            continue
        if (feature is None or feature in plan.features) and plan.nodes >= nodes:
            cards += [name] * times
    return cards


def family(plan, number):
    cards = deck(plan)
    round_number, place = divmod(number, len(cards))
    random.Random(f"chaos/{plan.seed}/deck/{round_number}").shuffle(cards)
    return cards[place]


def episode(plan, number):
    name = family(plan, number)
    draw = Draw(plan, number)
    faults = FAMILIES[name][0](draw)
    calm = draw.between(0.5, 2.5)
    return {"number": number, "family": name, "faults": faults, "calm": calm}


def length(one):
    """About how long an episode takes, with what it takes to be whole again."""
    return max(fault["end"] for fault in one["faults"]) + one["calm"] + 1


def episodes(plan, seconds):
    """As many as may fit into the time."""
    found = []
    while sum(map(length, found)) < seconds + 10:
        found.append(episode(plan, len(found)))
    return found


def settings(plan):
    """leafd's settings of a run: its defaults in half of them, quick ones in the others."""
    source = random.Random(f"chaos/{plan.seed}/settings")
    chosen = {"http-loops": 2}
    if source.random() < 0.5:
        chosen["raft-election-ms"] = 300
    chosen["raft-snapshot-entries"] = source.choice([50, 500, 8192])
    chosen["snowflake-workers"] = source.choice([1, 1, 2])
    return chosen
