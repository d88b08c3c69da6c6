#!/usr/bin/python3
"""chaos - real leafd processes under load while faults are drawn from a seed; then the verdict.

    run.py [--minutes M | --seconds S] [--seed N|N-M] [--nodes 3|5] [--out DIR] [--pace X]
           [--only FAMILY,...] [--plain-disks] [--no-clocks] [--shim FILE] [--keep] [--list]

`make chaos` runs it. LEAFD names another binary, such as one built with a sanitizer (with --pace
0.3, since that is slower). The schedule is a function of the seed alone: the same seed does the
same things in the same order to the same nodes ("leader" is whoever leads then), as far as real
time allows. Everything lies in DIR/<seed>: schedule.json, events.jsonl, samples.jsonl, load/ (what
the clients saw), node*/ (logs), report.html, which is also DIR/report.html, summary.json; and with
a finding, or --keep, the data of all nodes. With a range of seeds there is a run of so many minutes
for each. The exit code is 1 with a finding.

The first Ctrl-C or SIGTERM ends the faults early; what there is is judged. The second ends it all.
"""

import argparse
import bisect
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from chaos import disks, schedule  # noqa: E402
from chaos.events import Events  # noqa: E402
from chaos.health import NS, Health  # noqa: E402
from chaos.judge import Judge  # noqa: E402
from chaos.links import Links  # noqa: E402
from chaos.load import Load  # noqa: E402
from chaos.monitor import Monitor  # noqa: E402
from chaos.nemesis import SETTLE_S, Unsettled  # noqa: E402
from chaos.nemesis_members import MemberNemesis  # noqa: E402
from chaos.report import write_report  # noqa: E402
from clockfile import LIBRARY, ClockFile, find_libraries, remove_leftovers  # noqa: E402
from cluster import Cluster  # noqa: E402
from node import ROOT, Node, leafd_path  # noqa: E402
from wait import WaitTimeout, within  # noqa: E402

IN_NAMESPACE = "LEAFD_CHAOS_NAMESPACE"
PROGRESS_S = 10
AGREE_S = 10.0
DEFAULT_ELECTION_MS = 1000
FAR = 1 << 62


def say(text):
    print(f"chaos: {text}", flush=True)


class Run:
    """One run: what it is made of, and in the end what the judge looks at."""

    def __init__(self, options, seed, stopping):
        self.options = options
        self.seed = seed
        self.directory = os.path.join(os.path.abspath(options.out), str(seed))
        self.stopping = stopping
        self.texts = []  # (check, text): findings made on the way
        self.tables = {}
        self.workers = {}
        self.closers = []
        self.plan = self.cluster = self.load = self.events = self.monitor = self.nemesis = None

    # --- set-up ---

    def prepare(self):
        if os.path.exists(self.directory):
            shutil.rmtree(self.directory)
        os.makedirs(self.directory)
        features = self.features()
        families = [name for name in self.options.only.split(",") if name]
        unknown = set(families) - set(schedule.FAMILIES)
        if unknown:
            raise SystemExit(f"chaos: no such family: {sorted(unknown)}; --list shows them")
        plan = schedule.Plan(self.seed, self.options.nodes, features, families)
        self.settings = schedule.settings(plan)
        self.election_ms = self.settings.get("raft-election-ms", DEFAULT_ELECTION_MS)
        self.make_cluster(plan)
        self.events = Events(os.path.join(self.directory, "events.jsonl"))
        self.monitor = Monitor(os.path.join(self.directory, "samples.jsonl"))
        self.begin_ns = time.monotonic_ns()
        self.clock_ms = int(time.time() * 1000) - self.begin_ns // 1_000_000
        self.cluster.start()
        for node in self.cluster.nodes:
            self.monitor.watch(node)
        self.monitor.start(self.events)
        plan.features = sorted(set(plan.features) | self.features_of_server())
        self.plan = plan
        self.load = Load(os.path.join(self.directory, "load"), self.seed,
                         self.options.pace, plan.features)  # fmt: skip
        self.spaces = {n: space[0] for n, space in self.load.spaces.items()}
        self.kinds = {n: space[:2] for n, space in self.load.spaces.items()}
        self.make_tags()
        self.write_schedule()

    def features(self):
        found = {"shim"}
        if os.geteuid() == 0 and not self.options.plain_disks:
            if os.environ.get(IN_NAMESPACE) and disks.images_work(self.directory):
                found.add("images")
        if glob.glob(LIBRARY) and not self.options.no_clocks:
            found.add("clocks")
        return found

    def make_cluster(self, plan):
        self.cluster = Cluster(self.directory, plan.nodes, self.settings)
        self.next_id = plan.nodes + 1
        self.links = Links()
        self.closers.append(self.links.close)
        self.links.attach(self.cluster)
        self.shim = self.options.shim or disks.build_shim(self.directory)
        self.libraries = find_libraries(leafd_path())
        if "clocks" in plan.features:
            remove_leftovers()
        for node in self.cluster.nodes:
            self.equip(node, plan)

    def equip(self, node, plan):
        """Give a node a disk and a clock that faults can reach."""
        node.disk = disks.Disk(node, self.shim, "images" in plan.features)
        self.closers.append(node.disk.close)
        libraries = [path for path in self.libraries if "faketime" not in path]
        environment = []
        node.clock = None
        if "clocks" in plan.features:
            libraries = self.libraries
            node.clock = ClockFile(os.path.join(node.directory, "clock"), libraries)
            environment = node.clock.prefix()[2:]
        environment += node.disk.environment(plan.seed)
        preload = ":".join([*libraries, self.shim])
        node.prefix = ["env", f"LD_PRELOAD={preload}", *environment]

    def newcomer(self):
        """A node that was never there, equipped and not started: it asks all to let it join."""
        others = [self.links.addresses[node.id] for node in self.cluster.running()]
        old = self.cluster.nodes[0]
        settings = {name: value for name, value in old.settings.items() if "peer" not in name}
        node = Node(self.next_id, os.path.join(self.directory, f"node{self.next_id}"), settings)
        self.next_id += 1
        node.members = None
        node.settings["join"] = ",".join(others)
        node.settings["peer-advertise"] = self.links.add(node)
        self.equip(node, self.plan)
        return node

    def features_of_server(self):
        """What this leafd can do that another version may not."""
        node = self.cluster.nodes[0]
        self.version = "{version} ({commit})".format(**node.get_json("/version"))
        found = set()
        answer = node.http("PUT", "/api/tags/chaos%2Fprobe", {"mode": "strict"})
        if answer.status == 201:
            found.add("strict")
        if node.http("PUT", "/api/tags/chaos%2Fprobe", {"mode": "monotonic"}).status == 200:
            found.add("monotonic")
        answer = node.http("POST", "/api/cluster/leader", {"id": 0})
        if answer.code not in ("no_route", "method_not_allowed"):
            found |= {"transfer", "members"}
        return found

    def make_tags(self):
        node = self.cluster.nodes[0]
        for name, _, fields in self.load.spaces.values():
            if fields is not None:
                self.cluster.create_tag(name, node, **fields)
        self.cluster.wait_applied()

    def write_schedule(self):
        seconds = self.options.seconds
        written = {**self.plan.as_dict(), "settings": self.settings, "seconds": seconds,
                   "episodes": schedule.episodes(self.plan, seconds)}  # fmt: skip
        with open(os.path.join(self.directory, "schedule.json"), "w", encoding="utf-8") as file:
            json.dump(written, file, indent=1)
        say(f"seed {self.plan.seed}, {self.plan.nodes} nodes, {seconds:.0f} s, "
            f"{' '.join(self.plan.features)}")  # fmt: skip
        say(f"settings {self.settings}")
        say(f"everything lies in {self.directory}")

    # --- the run ---

    def play(self):
        self.load.start(self.cluster.nodes)
        self.nemesis = MemberNemesis(self)
        begin = time.monotonic()
        end = begin + self.options.seconds
        number = 0
        told = begin
        try:
            self.nemesis.pass_time(1.0)
            while time.monotonic() < end and not self.stopping.asked:
                episode = schedule.episode(self.plan, number)
                self.tell_episode(episode, begin)
                self.nemesis.play(episode)
                number += 1
                dead = self.load.dead()
                if dead:
                    raise Unsettled(f"the clients of {dead} ended by themselves")
                if time.monotonic() - told > PROGRESS_S:
                    told = time.monotonic()
                    say(f"{told - begin:6.1f} s  {tell_counts(self.load.progress())}")
        except Unsettled as error:
            self.texts.append(("recovery", str(error)))
            say(f"the run ends early: {error}")
        self.episodes = number

    def tell_episode(self, episode, begin):
        faults = "; ".join(
            " ".join([f["kind"]] + [f"{k}={v}" for k, v in f.items() if k not in ("kind", "seed")])
            for f in episode["faults"]
        )
        now = time.monotonic() - begin
        say(f"{now:6.1f} s  episode {episode['number']}, {episode['family']}: {faults}")

    def offset(self, time_ns):
        """A time as seconds of the run."""
        return f"{(time_ns - self.begin_ns) / NS:.3f} s" if time_ns else "never"

    def episode_at(self, time_ns):
        """The number of the episode that a time lies in, or that went before it."""
        begins = [(e["t"], e["number"]) for e in self.events if e["what"] == "episode"]
        at = bisect.bisect_right(begins, (time_ns, FAR)) - 1
        return begins[at][1] if at >= 0 else "none"

    # --- the end ---

    def finish(self):
        """Stop the load, see that all nodes agree, and stop them."""
        self.mend()
        self.texts += [("clients", text) for text in self.load.stop()]
        try:
            within(self.agree, AGREE_S, "all nodes have the same")
        except (WaitTimeout, RuntimeError) as error:
            self.texts.append(("tables", f"at the end: {error}"))
        try:
            self.monitor.read_workers(self.cluster.nodes[0], 5.0)
        except (OSError, AssertionError) as error:
            self.texts.append(("tables", f"the registry at the end: {error!r}"))
        self.monitor.stop()
        self.workers = self.monitor.workers
        self.end_ns = time.monotonic_ns()
        for node in self.cluster.running():
            try:
                node.stop()
            except AssertionError as error:
                self.texts.append(("processes", str(error)))
        self.texts += [("processes", text) for text in self.cluster.faults()]
        self.events.close()

    def mend(self):
        """After a run that ended early: all faults over, all nodes up."""
        for number in list(self.nemesis.active):
            try:
                self.nemesis.end(number)
            except Exception as error:
                self.texts.append(("nemesis", f"ending a fault: {error!r}"))
        for node in self.cluster.nodes:
            if not node.alive and node.process is None:
                self.nemesis.start(node)
        deadline = time.monotonic() + SETTLE_S
        since = time.monotonic_ns()
        while time.monotonic() < deadline:
            if all(self.monitor.settled(node, since) for node in self.cluster.nodes):
                return
            time.sleep(0.05)

    def agree(self):
        """Read what every node has; True if all have the same."""
        for node in self.cluster.nodes:
            node.check_running()
            self.tables[node.id] = read_tags(node)
        tables = list(self.tables.values())
        workers = [read_holders(node) for node in self.cluster.nodes]
        return all(table == tables[0] for table in tables) and all(
            rows == workers[0] for rows in workers
        )

    def judge(self):
        self.texts += self.nemesis.findings
        self.samples = read_samples(os.path.join(self.directory, "samples.jsonl"))
        nodes = range(1, self.next_id)
        self.records = self.load.records()
        self.journals = self.load.journals()
        self.events = sorted(self.events.all, key=lambda event: event["t"])
        self.health = Health(self.events, self.samples, nodes, self.election_ms)
        return Judge(self)

    def close(self):
        if self.cluster is not None:
            self.cluster.end()
        for close in reversed(self.closers):
            try:
                close()
            except Exception:
                traceback.print_exc()

    def keep_data(self):
        for node in self.cluster.nodes + self.cluster.spares:
            node.disk.keep()

    def drop_data(self):
        """Nothing was found: the page, the schedule, the events and the logs are enough."""
        shutil.rmtree(os.path.join(self.directory, "load"), ignore_errors=True)
        for node in self.cluster.nodes + self.cluster.spares:
            for name in os.listdir(node.directory):
                path = os.path.join(node.directory, name)
                if name.startswith("data") or (name == "disk" and not node.disk.image):
                    shutil.rmtree(path, ignore_errors=True)


def read_tags(node):
    rows = {}
    after = ""
    while after is not None:
        target = f"/api/tags?limit=1000&consistency=local&after={after.replace('/', '%2F')}"
        page = node.get_json(target)
        rows.update((row["tag"], row) for row in page["tags"])
        after = page["next"]
    return rows


def read_holders(node):
    """The registry of worker ids as this node has it, without what changes all the time."""
    page = node.get_json("/api/workers?limit=1024&consistency=local")
    return [(r["worker_id"], r["epoch"], r["name"], r["from_ms"]) for r in page["workers"]]


def read_samples(path):
    """All samples of a run, without the words that are there for people."""
    samples = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            sample = json.loads(line)
            for name in ("why", "warnings", "members", "ready"):
                sample.pop(name, None)
            samples.append(sample)
    return samples


def tell_counts(counts):
    return f"{counts['ids']:,} ids, {counts['requests']:,} requests, {counts['errors']:,} errors"


def verdict(run, judge):
    """Print what was found and how to see it again; the summary for the page."""
    total = sum(space.total() for space in judge.spaces.values())
    requests = sum(judge.requests.values())
    worst = max((taken for _, _, taken in judge.recoveries), default=0) / NS
    summary = {
        "seed": run.plan.seed, "nodes": run.plan.nodes, "seconds": run.options.seconds,
        "ids": total, "requests": requests, "episodes": run.episodes,
        "faults": len(run.nemesis.struck), "worst_recovery_s": round(worst, 2),
        "findings": len(judge.findings), "undecided": len(judge.undecided),
        "at": time.strftime("%Y-%m-%d %H:%M:%S"),
    }  # fmt: skip
    for name, content in (("summary", summary), ("findings", judge.findings)):
        with open(os.path.join(run.directory, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
    say(f"{total:,} ids by {requests:,} requests; {summary['faults']} faults in {run.episodes} "
        f"episodes; slowest recovery {worst:.2f} s")  # fmt: skip
    for finding in judge.findings[:40]:
        say(f"FOUND ({finding['check']}) {finding['text']}")
    for text in judge.undecided[:10]:
        say(f"not decided: {text}")
    if judge.findings:
        say(f"{len(judge.findings)} found; logs, data, schedule, histories: {run.directory}")
        say(f"again: {replay(run)}")
    else:
        undecided = len(judge.undecided)
        say("nothing found" + (f", {undecided} not decided" if undecided else ""))
    return summary


def replay(run):
    options = run.options
    command = f"make chaos SEED={run.plan.seed} MINUTES={options.seconds / 60:g}"
    command += f" NODES={run.plan.nodes}"
    extra = []
    if options.only:
        extra.append(f"--only '{options.only}'")
    if options.pace != 1:
        extra.append(f"--pace {options.pace:g}")
    extra += ["--plain-disks"] * options.plain_disks + ["--no-clocks"] * options.no_clocks
    if extra:
        command += f' CHAOS="{" ".join(extra)}"'
    usual = os.path.join(os.path.dirname(os.path.abspath(options.out)), "release", "leafd")
    if os.environ["LEAFD"] != usual:
        command = f"LEAFD={os.environ['LEAFD']} " + command
    return command


def parse_options():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=parse_seeds)
    parser.add_argument("--nodes", type=int, choices=(3, 5), default=3)
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "chaos"))
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--plain-disks", action="store_true")
    parser.add_argument("--no-clocks", action="store_true")
    parser.add_argument("--shim", default="")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = options.minutes * 60
    if options.seed is None:
        options.seed = [random.randrange(1, 1_000_000)]
    return options


def parse_seeds(text):
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def enter_namespace():
    """Mounts of this run are seen by nobody else, and are gone with it. Where that cannot be (in a
    chroot, in a container without the right) nothing is mounted: the shim plays the full disk."""
    if os.geteuid() != 0 or os.environ.get(IN_NAMESPACE) or not shutil.which("unshare"):
        return
    prefix = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        return
    os.environ[IN_NAMESPACE] = "1"
    os.execvp("unshare", [*prefix, sys.executable, os.path.abspath(__file__), *sys.argv[1:]])


class Stopping:
    """Whether a signal has asked to stop. A plain flag: a handler runs in the midst of anything, of
    another one too, and would wait for ever for a lock such as a threading.Event has."""

    asked = False


def main():
    options = parse_options()
    if options.list:
        print("\n".join(schedule.FAMILIES))
        return 0
    if not os.access(leafd_path(), os.X_OK):
        raise SystemExit(f"chaos: no leafd at {leafd_path()}: build it, or set LEAFD")
    os.environ["LEAFD"] = os.path.abspath(leafd_path())
    if not options.plain_disks:
        enter_namespace()
    stopping = Stopping()

    def on_signal(number, _):
        if stopping.asked:
            os._exit(128 + number)
        stopping.asked = True

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    found = 0
    for seed in options.seed:
        if not stopping.asked:
            found += run_one(options, seed, stopping)
    return 1 if found else 0


def run_one(options, seed, stopping):
    """A whole run; how much was found."""
    run = Run(options, seed, stopping)
    try:
        try:
            run.prepare()
        except (AssertionError, OSError, RuntimeError) as error:
            say(f"FOUND (start) the cluster does not come up as it should: {error}")
            say(f"logs: {run.directory}")
            return 1
        run.play()
        run.finish()
        judge = run.judge()
        summary = verdict(run, judge)
        page = write_report(run, judge, summary, replay(run))
        say(f"the page: {page}")
        if judge.findings or options.keep:
            run.keep_data()
    finally:
        run.close()
    if not judge.findings and not options.keep:
        run.drop_data()
    return len(judge.findings)


if __name__ == "__main__":
    sys.exit(main())
