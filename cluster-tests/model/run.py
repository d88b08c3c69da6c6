"""Draw sequences, run them against a cluster and the model, and shrink one that fails.

    run.py --minutes 2 [--seed N] [--nodes 1|3]      random sequences; the seed is printed
    run.py --replay FILE                             one sequence, as a failure prints it

A sequence is a function of its seed, and has a cluster of its own (a birth takes about a second),
so that one that fails can be run again by itself: the driver cuts it, as long as what is left fails
in the same way, and prints that as lines of JSON for --replay. It is no hypothesis: a run costs
seconds here, not microseconds, and an outcome may be unknown, which hypothesis takes for flaky.
"""

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from model.known import KNOWN  # noqa: E402
from model.operations import OF_OWNERS, OF_TOKENS, OPERATIONS, path_of  # noqa: E402
from model.reference import DATED, SECRET, SHAPES, Model, Violation  # noqa: E402
from model.world import WAIT_S, World  # noqa: E402
from wait import WaitTimeout, wait_until  # noqa: E402

SHRINK_S = 90


class Plan:
    """What a sequence is about: drawn first, so that its operations meet."""

    def __init__(self, seed, size, specs=None):
        rng = random.Random(seed)
        self.size = size
        self.specs = specs if specs is not None else dict(draw_spec(rng, n) for n in range(5))
        self.tags = list(self.specs)
        self.counts = rng.choice([[1], [1, 2, 5], [1, 3, 40], [1, 10, 1000], [1000]])
        self.keys = rng.choice([0, 0.1, 0.5])
        self.strangers = rng.choice([0, 0.1, 0.3])
        self.map = rng.choice([None, "64MiB"])  # of the data
        self.tls = rng.choice([None] * 8 + ["optional", "required"])
        self.split = rng.random() < 0.2  # has an admin listener
        self.open = rng.random() < 0.2  # has no tokens
        self.length = rng.choice([20, 60, 150])
        # Some kinds of operations are left out of each sequence, so that others come more often.
        self.weights = {name: operation.weight * rng.choice([0, 1, 1, 3])
                        for name, operation in sorted(OPERATIONS.items())}
        self.weights["ids"] = OPERATIONS["ids"].weight
        if self.open:
            self.strangers = 0
            self.weights.update(dict.fromkeys(OF_TOKENS, 0))
        self.rng = rng

    def owner(self, rng, tag):
        if rng.random() < self.strangers:
            return rng.choice(["alice", "bob", "shop", "operator"])
        return rng.choice(["alice", "alice", "operator"] if tag.startswith("a/") else
                          ["bob", "bob", "operator"])

    def draw(self):
        """[(operation, words)], tags made first."""
        steps = [("put", {"tag": tag}) for tag in self.tags]
        used = {}
        names = [name for name, weight in self.weights.items() if weight]
        while len(steps) < self.length:
            name = self.rng.choices(names, [self.weights[n] for n in names])[0]
            bound = OPERATIONS[name].at_most
            if bound is not None and used.get(name, 0) >= bound:
                continue
            used[name] = used.get(name, 0) + 1
            words = OPERATIONS[name].draw(self.rng, self)
            if self.open and not self.tls and name in OF_OWNERS:
                words.pop("protocol", None)  # leafctl has no address of its own
            steps.append((name, words))
        return steps


def draw_spec(rng, number):
    """A name, and what it is made with."""
    name = f"{rng.choice('aaab')}/{number}"
    spec = {"mode": rng.choice(["trend", "trend", "strict", "strict", "monotonic"])}
    if rng.random() < 0.6:
        shape = rng.choice(sorted(SHAPES))
        spec["shape"] = SHAPES[shape][0]
        if shape in DATED:
            spec["mode"] = "strict"
    if rng.random() < 0.3 and spec.get("shape") not in [SHAPES[s][0] for s in DATED | SECRET]:
        spec["max"] = rng.choice([2, 30, 1500])
    if rng.random() < 0.5:
        spec["step"] = rng.choice([1, 10, 100])
    return name, spec


class Run:
    """A sequence under way."""

    def __init__(self, world, plan, careful=True):
        self.world, self.plan, self.size = world, plan, plan.size
        self.model = Model(plan.size, plan.open and not plan.tls)
        self.specs = dict(plan.specs)
        self.backups = []
        self.made = set()  # names that were ever made
        self.taken = 0
        self.careful = careful  # leave out what meets known faults
        self.left_out = 0

    def tag(self, name):
        shape = self.spec(name).get("shape")
        return self.model.tag(name, next((s for s in SHAPES if SHAPES[s][0] == shape), None))

    def spec(self, name):
        return self.specs.get(name, {})

    def certain(self, ask):
        """An answer whose outcome is known: for what may be asked as often as one likes."""

        def answered():
            answer = ask()
            return answer if answer.code != "unknown" else None

        return wait_until(answered, WAIT_S, "an answer")

    def until(self, condition, what):
        return wait_until(condition, WAIT_S, what)

    def look(self, row):
        """max_id, as the cluster has it."""
        answer = self.certain(lambda: self.world.http(
            0, "operator", "GET", f"/api/tags/{path_of(row.name)}"))
        max_id = self.model.shown(row, answer.json)
        if row.left_from is None:
            row.left_from = max_id
        if row.next is None and row.mode == "strict" and row.shape not in DATED:
            row.next, row.slack = max_id, 0
        return max_id

    def resolve(self, row):
        """What a change without an answer came to."""
        if not row.murky:
            return
        answer = self.certain(lambda: self.world.http(
            0, "operator", "GET", f"/api/tags/{path_of(row.name)}"))
        row.alive = answer.ok
        if answer.ok:
            shown = answer.json
            row.mode, row.key = shown["mode"], int(shown.get("key", 0))
            row.max, row.cover = int(shown.get("max", row.max)), shown.get("cover_s", 0)
            row.next = row.left_from = None
            row.behind = set(range(self.size))
            self.made.add(row.name)

    def see(self, row, node):
        """Has the node heard of the last change by now?"""
        node = node % self.size
        if node not in row.behind:
            return
        answer = self.world.http(node, "operator", "GET",
                                 f"/api/tags/{path_of(row.name)}?consistency=local")
        if (answer.ok and row.alive and int(answer.json["generation"]) >= row.generation) or (
                answer.code == "unknown_tag" and not row.alive):
            row.behind.discard(node)

    def lost(self):
        """Nodes ended: what they held may be burnt."""
        for row in self.model.tags.values():
            row.left_from = None

    def step(self, name, words):
        self.world.turn = zlib.crc32(json.dumps([name, words], sort_keys=True).encode()) >> 8
        if self.careful and any(known.avoid(self, name, words) for known in KNOWN.values()):
            self.left_out += 1
            return
        OPERATIONS[name].run(self, **words)
        for node in self.world.nodes:
            try:
                node.check_running()
            except RuntimeError as error:
                raise ended(error) from error


def ended(error):
    """The Violation that a node ended by itself; its kind has the exit code."""
    code = re.search(r"ended with (-?\d+)", str(error))
    return Violation(f"node-ended-{code[1] if code else '?'}", str(error))


def play(steps, plan, careful=True, world=None):
    """Run a sequence on a cluster of its own; (the Violation or None, operations done, Run)."""
    world = world or open_world(plan)
    run = Run(world, plan, careful)
    done = 0
    try:
        world.wait()
        for name, words in steps:
            run.step(name, words)
            done += 1
        faults = world.cluster.faults()
        if faults:
            raise Violation("log", "\n".join(faults))
    except Violation as violation:
        return violation, done + 1, run
    except WaitTimeout as error:
        return Violation("unavailable", str(error)), done + 1, run
    except RuntimeError as error:
        return ended(error), done + 1, run
    finally:
        world.end()
    return None, done, run


def open_world(plan):
    settings = {"data-map-bytes": plan.map} if plan.map else {}
    world = World(tempfile.mkdtemp(prefix="leafd-model-"), plan.size, settings, plan.tls,
                  plan.split, plan.open)
    world.start()
    return world


def shrink(steps, plan, violation, seconds=SHRINK_S, again=None):
    """The same Violation by fewer operations: parts are cut out, the larger ones first. again: does
    a sequence still fail? Without it, that is tried."""
    until = time.monotonic() + seconds

    def played(candidate):
        try:
            found, _, _ = play(candidate, plan)
        except TypeError:
            return False  # a word that is needed is missing
        return found is not None and found.kind == violation.kind

    def fails(candidate):
        return time.monotonic() < until and (again or played)(candidate)

    for kept in [lambda words: words.get("tag", last) == last, lambda words: "tag" not in words]:
        last = steps[-1][1].get("tag")
        candidate = [*(step for step in steps[:-1] if kept(step[1])), steps[-1]]
        if len(candidate) < len(steps) and fails(candidate):
            steps = candidate
    size = max(1, len(steps) // 2)
    while True:
        at, cut = 0, False
        while at < len(steps):
            candidate = steps[:at] + steps[at + size:]
            if candidate and fails(candidate):
                steps, cut = candidate, True
            else:
                at += size
        if size == 1 and not cut or time.monotonic() > until:
            return plainer(steps, fails)
        size = max(1, size // 2) if not cut or size > 1 else 1


def plainer(steps, fails):
    """The same with fewer words, where what a word says does not matter."""
    for at, (name, words) in enumerate(steps):
        for word in sorted(set(words) - {"tag", "name", "tags"}):
            fewer = {other: value for other, value in words.items() if other != word}
            candidate = [*steps[:at], (name, fewer), *steps[at + 1:]]
            if fails(candidate):
                steps, words = candidate, fewer
    return steps


def printed(steps, plan):
    """As --replay reads it."""
    used = {words["tag"] for _, words in steps if "tag" in words}
    specs = {tag: spec for tag, spec in plan.specs.items() if tag in used}
    lines = [json.dumps({"nodes": plan.size, "tags": specs, "map": plan.map,
                         "tls": plan.tls, "split": plan.split, "open": plan.open})]
    return "\n".join(lines + [json.dumps([name, words]) for name, words in steps])


def read(text):
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    plan = Plan(0, lines[0]["nodes"], lines[0]["tags"])
    plan.map, plan.tls = lines[0].get("map"), lines[0].get("tls")
    plan.split, plan.open = lines[0].get("split", False), lines[0].get("open", False)
    return [(name, words) for name, words in lines[1:]], plan


def replay(text):
    """The Violation of a printed sequence, or None; nothing is left out for known faults."""
    steps, plan = read(text)
    return play(steps, plan, careful=False)[0]


class Campaign:
    """Sequence after sequence of one seed."""

    def __init__(self, seed, sizes, stream):
        self.seed, self.sizes, self.stream = seed, sizes, stream
        self.rng = random.Random(seed)
        self.found = set()
        self.sequences = self.operations = self.ids = self.left_out = self.cut_short = 0
        self.began = time.monotonic()

    def say(self, text):
        print(text, file=self.stream, flush=True)

    def draw(self):
        """The next sequence's own seed, its plan, and a cluster that is being born."""
        own = self.rng.getrandbits(48)
        plan = Plan(own, random.Random(own).choice(self.sizes))
        return own, plan, open_world(plan)

    def run(self, minutes, find_all, most):
        coming = self.draw()
        try:
            while time.monotonic() < self.began + minutes * 60 and (
                    find_all or not self.found) and self.sequences < most:
                (own, plan, world), coming = coming, self.draw()
                self.sequence(own, plan, world)
        finally:
            coming[2].end()
        seconds = time.monotonic() - self.began
        self.say(f"model-test: seed {self.seed}: {self.sequences} sequences, {self.operations} "
                 f"operations ({self.operations / seconds:.0f} a second), {self.ids} ids; known "
                 f"faults: {self.left_out} operations left out, {self.cut_short} sequences cut "
                 f"short; found: {', '.join(sorted(self.found)) or 'nothing'}")

    def sequence(self, own, plan, world):
        steps = plan.draw()
        violation, done, run = play(steps, plan, world=world)
        self.sequences, self.operations = self.sequences + 1, self.operations + done
        self.ids, self.left_out = self.ids + run.taken, self.left_out + run.left_out
        if violation is None:
            return
        if violation.kind in {known.kind for known in KNOWN.values()} or (
                violation.kind in self.found):
            self.cut_short += 1
            self.say(f"sequence {own} of seed {self.seed} met what is known: {violation.kind}")
            return
        self.found.add(violation.kind)
        self.say(f"sequence {own} of seed {self.seed}: {violation}\nshrinking {done} operations")
        least = shrink(steps[:done], plan, violation)
        self.say(f"{violation}\nthe sequence for --replay:\n{printed(least, plan)}")


def campaign(seed, minutes, sizes, find_all=False, stream=sys.stdout, most=10**9):
    """The kinds of what was found; the first ends it, unless all are to be found. At most so many
    sequences."""
    of = Campaign(seed, sizes, stream)
    of.run(minutes, find_all, most)
    return of.found


def main():
    parser = argparse.ArgumentParser(description="the model-based test")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--nodes", type=int, choices=[1, 3])
    parser.add_argument("--all", action="store_true", help="go on behind the first failure")
    parser.add_argument("--replay")
    options = parser.parse_args()
    if options.replay:
        with open(options.replay, encoding="utf-8") as file:
            steps, plan = read(file.read())
        violation, done, run = play(steps, plan, careful=False)
        print(f"operation {done}: {violation}" if violation else f"{done} operations: all right")
        return 1 if violation else 0
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"model-test: seed {seed}", flush=True)
    sizes = [options.nodes] if options.nodes else [1, 1, 3]
    return 1 if campaign(seed, options.minutes, sizes, options.all) else 0


if __name__ == "__main__":
    sys.exit(main())
