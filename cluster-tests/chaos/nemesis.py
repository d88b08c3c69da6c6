"""Carries out the faults of a schedule, and mends what they broke.

The happy path: play(episode) strikes and ends each fault at its time, waits until every node says
that it is settled again, and lets the cluster be calm for a moment. Each kind of fault is a pair of
methods, begin_<kind>() and end_<kind>(); what they do to the cluster is told to the events as
effects (health.py).

Runs on the main thread: nodes die with the thread that started them. What a fault demands of a
node (an exit code, a message) and does not get is a finding.
"""

import heapq
import re
import signal
import threading
import time

from chaos.health import NS

EXIT_DATA = 65
EXIT_DISK = 74
EXIT_REFUSED = 76
FAILS_WITHIN_S = 12.0
REFUSES_WITHIN_S = 15.0
# Beyond this it has not recovered, and the run ends; what it is judged by is judge.RECOVERY_NS.
SETTLE_S = 40.0
TICK_S = 0.02
SHUNNED = re.compile(r"level=error.*a peer refuses this node")


class Unsettled(Exception):
    """The cluster did not become whole again; the run is over."""


class Repeat(threading.Thread):
    """Calls something again and again until it is stopped."""

    def __init__(self, action, period_s):
        super().__init__(daemon=True)
        self.action = action
        self.period_s = period_s
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.period_s):
            self.action()

    def stop(self):
        self.over.set()
        self.join()


class Nemesis:
    """run: the cluster, whose nodes have .disk and .clock (None: no clock of its own), and the rest
    of what a run has (run.py)."""

    def __init__(self, run):
        self.run = run
        self.cluster = run.cluster
        self.links = run.links
        self.monitor = run.monitor
        self.events = run.events
        self.stopping = run.stopping
        self.election_ms = run.election_ms
        # The nodes at the beginning; health.py takes all that there ever were for members else.
        self.events.effect("members", True, ids=[node.id for node in self.cluster.nodes])
        self.findings = []
        self.serial = 0
        # Number of a fault that has begun: (fault, what it left to be ended, ids of its nodes).
        self.active = {}
        self.may_end = {}  # nodes that may end by themselves: since when
        self.struck = []
        self.joining = None  # a node that is not a member yet: "new" in a schedule

    # --- episodes ---

    def play(self, episode):
        self.events.add("episode", number=episode["number"], family=episode["family"])
        begin = time.monotonic()
        actions = []
        for number, fault in enumerate(episode["faults"]):
            heapq.heappush(actions, (fault["begin"], number, "begin", fault))
            heapq.heappush(actions, (fault["end"], number, "end", fault))
        numbers = {}
        while actions:
            at, number, what, fault = heapq.heappop(actions)
            self.pass_time(begin + at - time.monotonic())
            if what == "begin" and not self.stopping.asked:
                numbers[number] = self.begin(fault)
            elif what == "end" and numbers.get(number) is not None:
                self.end(numbers.pop(number))
        self.heal(episode)
        self.pass_time(episode["calm"])

    def pass_time(self, seconds):
        """Let the cluster go on for so long; a node that dies meanwhile is noticed."""
        end = time.monotonic() + seconds
        while not self.stopping.asked:
            self.look_for_deaths()
            rest = end - time.monotonic()
            if rest <= 0:
                return
            time.sleep(min(rest, TICK_S))

    def look_for_deaths(self):
        for node in self.cluster.nodes:
            if not node.alive or node.process.poll() is None:
                continue
            code = node.wait_exit()
            self.events.effect("down", True, node=node.id, at=self.may_end.get(node))
            if node not in self.may_end:
                self.add(f"{node} ended by itself with {code}:\n{node.log_tail()}")
                raise Unsettled(f"{node} ended by itself")

    def begin(self, fault):
        self.serial += 1
        number = self.serial
        method = getattr(self, "begin_" + fault["kind"])
        begin_ns = time.monotonic_ns()
        self.active[number] = (fault, None, [])
        outcome = method(fault)
        if outcome is None:  # there was nothing to do
            del self.active[number]
            return None
        left, nodes, text = outcome
        event = {"fault": number, "kind": fault["kind"], "nodes": nodes, "text": text}
        self.events.add("begin", **event, begin=begin_ns)
        self.active[number] = (fault, left, nodes)
        self.struck.append(fault["kind"])
        return number

    def end(self, number):
        fault, left, _ = self.active.pop(number)
        if left is not None:
            getattr(self, "end_" + fault["kind"])(fault, left)
        self.events.add("end", fault=number)

    def heal(self, episode):
        """All faults are over: now every node has to settle."""
        for number in list(self.active):
            self.end(number)
        self.look_for_deaths()
        self.may_end.clear()
        self.monitor.aim()
        healed = self.events.add(
            "healed", number=episode["number"], family=episode["family"],
            nodes=[node.id for node in self.cluster.nodes],
        )  # fmt: skip
        deadline = time.monotonic() + SETTLE_S
        while not all(self.monitor.settled(n, healed["t"]) for n in self.cluster.nodes):
            self.look_for_deaths()
            if time.monotonic() > deadline:
                lasts = [watcher.last for watcher in self.monitor.watchers.values()]
                raise Unsettled(f"not settled within {SETTLE_S:.0f} s of healing: {lasts}")
            time.sleep(TICK_S)

    def add(self, text):
        self.findings.append(("nemesis", text))
        self.events.add("note", text=text)

    # --- whom ---

    def resolve(self, wanted):
        """The node that a schedule means; None if it is not up."""
        up = [node for node in self.cluster.nodes if node.alive and node is not self.joining]
        if wanted == "new":
            return self.joining
        if isinstance(wanted, int):
            node = self.cluster.nodes[wanted - 1]
            return node if node in up else None
        busy = self.busy()
        if wanted == "struck":
            return next((node for node in up if node.id in busy), None)
        leader = self.monitor.leader()
        if wanted == "leader":
            fitting = [node for node in up if node.id == leader]
        else:
            fitting = [node for node in up if node.id != leader]
        # Two faults of an episode strike two nodes, where they can.
        among = [node for node in fitting if node.id not in busy] or fitting or up
        return among[self.serial % len(among)] if among else None

    def busy(self):
        """Ids of the nodes that faults have struck and not let go."""
        return {node for _, _, nodes in self.active.values() for node in nodes}

    def down(self, node):
        """Just before its process is ended. False if it has ended already."""
        if not node.alive:
            return False
        self.events.effect("down", True, node=node.id)
        node.leaving()
        return True

    def start(self, node):
        if not node.alive:
            node.start()
            self.events.effect("down", False, node=node.id)

    # --- processes ---

    def begin_kill(self, fault):
        node = self.resolve(fault["node"])
        if node is None or not self.down(node):
            return None
        node.kill9()
        return node, [node.id], "SIGKILL"

    def end_kill(self, _, node):
        if node in self.cluster.nodes:  # it may have been removed meanwhile
            self.start(node)

    def begin_stop(self, fault):
        node = self.resolve(fault["node"])
        if node is None:
            return None
        self.stop([node])
        return [node], [node.id], "SIGTERM"

    def begin_stop_all(self, fault):
        nodes = [self.cluster.nodes[number - 1] for number in fault["nodes"]]
        self.stop(nodes)
        return nodes, [node.id for node in nodes], "SIGTERM to all"

    def stop(self, nodes):
        stopping = [node for node in nodes if self.down(node)]
        for node in stopping:
            node.process.send_signal(signal.SIGTERM)
        for node in stopping:
            try:
                code = node.wait_exit()
            except AssertionError as error:  # the others go on
                self.add(f"after SIGTERM {error}")
                node.kill9()
                continue
            if code != 0:
                self.add(f"{node}: exit code {code} after SIGTERM:\n{node.log_tail()}")

    def end_stop(self, _, nodes):
        for node in nodes:
            self.start(node)

    end_stop_all = end_stop

    def begin_pause(self, fault):
        node = self.resolve(fault["node"])
        if node is None:
            return None
        self.events.effect("paused", True, node=node.id)
        node.pause()
        return node, [node.id], "SIGSTOP"

    def end_pause(self, _, node):
        if node.alive:
            node.resume()
        self.events.effect("paused", False, node=node.id)

    def begin_stutter(self, fault):
        node = self.resolve(fault["node"])
        if node is None:
            return None

        def stutter():
            node.pause()
            time.sleep(fault["stopped_ms"] / 1000)
            node.resume()

        self.events.effect("paused", True, node=node.id)
        text = f"stopped {fault['stopped_ms']} ms, runs {fault['runs_ms']} ms, and again"
        return (node, Repeat(stutter, fault["runs_ms"] / 1000)), [node.id], text

    def end_stutter(self, _, left):
        node, repeat = left
        repeat.stop()
        self.events.effect("paused", False, node=node.id)

    # --- links ---

    def pairs(self, fault):
        """The links of a cut, and whom to show it with."""
        ids = [node.id for node in self.cluster.nodes]
        shape = fault["shape"]
        every = [(a, b) for a in ids for b in ids if a != b]
        if shape == "all":
            return every, ids
        if shape in ("isolate", "mute", "deaf"):
            node = self.resolve(fault["node"])
            if node is None:
                return [], []
            out = [(a, b) for a, b in every if a == node.id]
            back = [(b, a) for a, b in out]
            return {"isolate": out + back, "mute": out, "deaf": back}[shape], [node.id]
        if shape in ("one-way", "pair"):
            one, other = (self.cluster.nodes[number - 1].id for number in fault["pair"])
            return [(one, other)] + ([(other, one)] if shape == "pair" else []), [one, other]
        if shape == "group":
            group = {self.cluster.nodes[number - 1].id for number in fault["group"]}
            return [(a, b) for a, b in every if (a in group) != (b in group)], sorted(group)
        # A ring: each sees its two neighbours, and everyone another majority.
        ring = [self.cluster.nodes[number - 1].id for number in fault["order"]]
        near = {(a, ring[at - 1]) for at, a in enumerate(ring)}
        near |= {(b, a) for a, b in near}
        return [link for link in every if link not in near], ids

    def begin_cut(self, fault):
        links, nodes = self.pairs(fault)
        # What another fault has cut is that fault's to mend.
        links = [link for link in links if link not in self.links.cuts]
        if not links:
            return None
        self.events.effect("links", True, links=links)
        self.links.cut_links(links)
        text = f"{fault['shape']}: {tell_links(links)}"
        return links, nodes, text

    def end_cut(self, _, links):
        self.links.restore(links)
        self.events.effect("links", False, links=links)

    def scope(self, fault):
        ids = [node.id for node in self.cluster.nodes]
        every = [(a, b) for a in ids for b in ids if a != b]
        scope = fault["scope"]
        if scope == "all":
            return every, ids
        if scope[0] == "link":
            one, other = (self.cluster.nodes[number - 1].id for number in scope[1:])
            return [(one, other)], [one, other]
        node = self.resolve(scope[1])
        if node is None:
            return [], []
        return [link for link in every if node.id in link], [node.id]

    def begin_links(self, fault):
        links, nodes = self.scope(fault)
        if not links:
            return None
        names = ("delay_ms", "jitter_ms", "bytes_per_s", "corrupt_bytes")
        shape = {name: fault[name] for name in names if name in fault}
        slow = 6 * (fault.get("delay_ms", 0) + fault.get("jitter_ms", 0)) > self.election_ms
        bad = slow or "bytes_per_s" in fault or "corrupt_bytes" in fault
        self.events.effect("limping", True, links=links if bad else [])
        self.links.shape(links, seed=str(fault), **shape)
        text = ", ".join(f"{name}={value}" for name, value in shape.items())
        return (links, bad), nodes, f"{text}: {tell_links(links)}"

    def end_links(self, _, left):
        links, bad = left
        self.links.restore(links)
        self.events.effect("limping", False, links=links if bad else [])

    def begin_resets(self, fault):
        links, nodes = self.scope(fault)
        if not links:
            return None
        self.events.effect("limping", True, links=links)
        repeat = Repeat(lambda: self.links.reset(links), fault["every_ms"] / 1000)
        text = f"connections dropped each {fault['every_ms']} ms: {tell_links(links)}"
        return (links, repeat), nodes, text

    def end_resets(self, _, left):
        links, repeat = left
        repeat.stop()
        self.events.effect("limping", False, links=links)


def tell_links(links):
    return " ".join(f"{a}→{b}" for a, b in sorted(links))


def seconds_since(time_ns):
    return (time.monotonic_ns() - time_ns) / NS
