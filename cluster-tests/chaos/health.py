"""Which node could serve when, and so: where a client may have seen an error.

What was done to the cluster (events.py) and what the nodes said (monitor.py) become intervals:

- A node is *down* from before its process was ended until it says that it is settled again;
  *paused*, with a bad *disk* or a wrong *clock* likewise. A node without any of these (but a clock)
  is sound.
- A link between two nodes is cut while either of its directions is; it limps while either resets
  connections, spoils bytes, is narrow, or is slow in proportion to the election timeout. It is good
  while neither.
- A sound node may lead if it has links that are not cut to so many other sound nodes that they are
  a majority with it: a leader that limps need not be deposed, and those that follow it limp, too. A
  sound node *follows* while some node may lead and it has good links to all that may: then whoever
  leads can be reached, and so can a majority through it. It is *well* also where such a link is
  cut, if a sound node has good links to both: requests go through that one. (Not where it limps: a
  link on which answers come is believed in.) But the log does not reach a node that does not
  follow.

- While the membership changes ("members" in the events says to whom it has changed), nodes are
  well only if all members but a lost one are sound and all links are good.

An error is permitted
1. on a node that was not well at some moment of the request, or had not settled since: 503
   `no_leader`, `timeout`, `overloaded`, `window_expired`, `no_worker_id`; with a bad disk also
   `disk_full`;
2. where the process was ended: no connection, a lost one, `shutting_down`;
3. for snowflake ids and worker ids, on a node whose clock was set, or that was down (it waits for
   the times of its former life): `clock_backwards`, `clock_skew`; with a wrong clock somewhere and
   a node that does not follow elsewhere on all nodes (the median has fewer clocks to be made of);
4. where a tag changes its mode, while any member does not follow: `mode_changing`;
5. on a well node for a request that waits less than an election takes: the codes of 1, if
   something was done to the cluster, or the term rose, shortly before or meanwhile.
6. on a well node for a request that waits less than ten seconds: the same, if the machine was
   starved (monitor.py) shortly before or meanwhile; it then has other work than this run.
Everything else is a finding: on a well node a request that may wait for ten seconds gets its ids,
through the death of a leader, too.
"""

import bisect

NS = 1_000_000_000
CALM_CODES = {"no_leader", "timeout", "overloaded", "window_expired", "no_worker_id", "in_progress"}
CLOCK_CODES = {"clock_backwards", "clock_skew"}
GONE_CODES = {"(refused)", "(connection lost)", "shutting_down"}
FOREVER = 1 << 63
# A clock that was set right is noticed with the next exchange of times, and may look wrong then.
CLOCK_LAG_NS = 2 * NS
LONG_MS = 10_000


class Intervals:
    """A set of times as disjoint intervals [begin, end]."""

    def __init__(self, pairs=()):
        merged = []
        for begin, end in sorted(pairs):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self.begins = [pair[0] for pair in merged]
        self.ends = [pair[1] for pair in merged]

    def pairs(self):
        return list(zip(self.begins, self.ends))

    def within(self, begin, end):
        """How much of these times it has."""
        return sum(max(0, min(e, end) - max(b, begin)) for b, e in zip(self.begins, self.ends))

    def meets(self, begin, end):
        """Has it a moment in common with these times?"""
        at = bisect.bisect_right(self.begins, end) - 1
        return at >= 0 and self.ends[at] >= begin


class Health:
    """The intervals of all nodes of a run."""

    def __init__(self, events, samples, nodes, election_ms):
        self.nodes = sorted(nodes)
        self.election_ns = int((2.5 * election_ms / 1000 + 1) * NS)
        self.settled_times = {node: [] for node in self.nodes}
        self.disturbances = []
        self.read_samples(samples)
        self.raw = {}  # (effect, node): [[begin, end], ...]
        # (time, set of pairs) from then on
        self.links = {"links": [(0, frozenset())], "limping": [(0, frozenset())]}
        self.members = [(0, self.nodes)]  # (time, ids of the voters) from then on
        self.starved = Intervals(
            (event["t"], event["end"]) for event in events if event["what"] == "starved"
        )
        self.lost = []  # [begin, end, id of a member that does not come back or None]: changing
        self.read_events(events)
        effects = ("down", "paused", "disk", "clock")
        self.by_effect = {
            (effect, node): Intervals(
                [b, self.settled_after(node, e + (CLOCK_LAG_NS if effect == "clock" else 0))]
                for b, e in self.raw.get((effect, node), [])
            )
            for effect in effects
            for node in self.nodes
        }
        self.unwell = self.find_times(find_well)
        self.astray = self.find_times(find_following)
        self.disturbances.sort()

    # --- reading ---

    def read_samples(self, samples):
        top = 0
        for sample in samples:
            if sample.get("ok") and sample["node"] in self.settled_times:
                self.settled_times[sample["node"]].append((sample["t"], sample["end"]))
            if sample.get("term", 0) > top:
                top = sample["term"]
                self.disturbances.append(sample["t"])
        for times in self.settled_times.values():
            times.sort()

    def settled_after(self, node, time_ns):
        """When the node first said that it is settled, asked after this time. If it has said so
        at this very time, that is it."""
        times = self.settled_times[node]
        at = bisect.bisect_left(times, (time_ns, 0))
        if at > 0 and times[at - 1][1] == time_ns:
            return time_ns
        return times[at][1] if at < len(times) else FOREVER

    def read_events(self, events):
        depth = {}
        bad = {"links": {}, "limping": {}}
        for event in events:
            if event["what"] != "effect":
                continue
            self.disturbances.append(event["t"])
            if event["effect"] == "members":
                self.members.append((event["t"], event["ids"]))
            elif event["effect"] == "changing":
                if event["on"]:
                    self.lost.append([event["t"], FOREVER, event["lost"]])
                else:
                    self.lost[-1][1] = event["t"]
            elif event["effect"] in bad:
                pairs = bad[event["effect"]]
                step = 1 if event["on"] else -1
                for link in event["links"]:
                    pair = frozenset(link)
                    pairs[pair] = pairs.get(pair, 0) + step
                now = {pair for pair, n in pairs.items() if n > 0}
                self.links[event["effect"]].append((event["t"], now))
            else:
                self.read_node_effect(event, depth)

    def read_node_effect(self, event, depth):
        key = (event["effect"], event["node"])
        depth[key] = depth.get(key, 0) + (1 if event["on"] else -1)
        spans = self.raw.setdefault(key, [])
        if event["on"] and depth[key] == 1:
            spans.append([event["t"], FOREVER])
        elif not event["on"] and depth[key] == 0:
            spans[-1][1] = event["t"]

    # --- who is well ---

    def find_times(self, find):
        """By node: the times at which it was none of those found, or had not settled since."""
        unsound = {
            node: Intervals(
                pair
                for effect in ("down", "paused", "disk")
                for pair in self.by_effect[effect, node].pairs()
            )
            for node in self.nodes
        }
        times = {0}
        for intervals in unsound.values():
            times.update(intervals.begins, intervals.ends)
        times.update(time for entries in self.links.values() for time, _ in entries)
        times.update(time for time, _ in self.members)
        times.update(time for change in self.lost for time in change[:2])
        times.discard(FOREVER)
        times = sorted(times)
        spans = {node: [] for node in self.nodes}
        for begin, end in zip(times, times[1:] + [FOREVER]):
            # Between two of these times nothing changes.
            sound = {n for n in self.nodes if not unsound[n].meets(begin, begin)}
            # At the very end of an interval both hold; what follows is looked at behind it.
            sound |= {n for n in self.nodes if begin in unsound[n].ends}
            members = at_time(self.members, begin)
            cut = at_time(self.links["links"], begin)
            limping = at_time(self.links["limping"], begin)
            well = find(sound & set(members), cut, limping, len(members))
            for first, last, lost in self.lost:
                if first <= begin < last and (cut or limping or set(members) - {lost} - sound):
                    well = set()
            for node in set(self.nodes) - well:
                spans[node].append((begin, end))
        return {
            node: Intervals(
                (b, self.settled_after(node, e)) for b, e in Intervals(spans[node]).pairs()
            )
            for node in self.nodes
        }

    # --- judging ---

    def had(self, effect, node, begin, end):
        intervals = self.by_effect.get((effect, node))
        return intervals is not None and intervals.meets(begin, end)

    def is_unwell(self, node, begin, end):
        return self.unwell[node].meets(begin, end)

    def is_disturbed(self, begin, end):
        """Was anything done to the cluster in this time?"""
        at = bisect.bisect_left(self.disturbances, begin)
        return at < len(self.disturbances) and self.disturbances[at] <= end

    def permits(self, node, begin, end, wait_ms, code, minds_clock):
        """May a request of this time to this node have got this instead of its answer?"""
        end = end or FOREVER
        if code in GONE_CODES:
            return self.had("down", node, begin, end)
        if code in CLOCK_CODES:
            return minds_clock and self.may_mind_clock(node, begin, end)
        if code == "disk_full":
            return self.had("disk", node, begin, end)
        if code == "mode_changing":
            return self.is_any_astray(begin, end)
        if code not in CALM_CODES:
            return False
        if self.is_unwell(node, begin, end) or minds_clock and self.had("clock", node, begin, end):
            return True
        before = begin - self.election_ns
        if wait_ms < LONG_MS and self.starved.meets(before, end):
            return True
        return wait_ms * 1_000_000 < self.election_ns and self.is_disturbed(before, end)

    def may_mind_clock(self, node, begin, end):
        if self.had("clock", node, begin, end) or self.had("down", node, begin, end):
            return True
        wrong = any(self.had("clock", other, begin, end) for other in self.nodes)
        return wrong and self.is_any_astray(begin, end)

    def is_any_astray(self, begin, end):
        """Of the members of that time."""
        first = bisect.bisect_right(self.members, begin, key=lambda entry: entry[0]) - 1
        last = bisect.bisect_right(self.members, end, key=lambda entry: entry[0])
        members = {node for _, ids in self.members[first:last] for node in ids}
        return any(self.astray[node].meets(begin, end) for node in members)


def at_time(entries, time_ns):
    """The value that holds at a time, of [(time from which on, value), ...]; None before all."""
    at = bisect.bisect_right(entries, time_ns, key=lambda entry: entry[0]) - 1
    return entries[at][1] if at >= 0 else None


def linked(one, other, bad):
    return one == other or frozenset((one, other)) not in bad


def find_may_lead(sound, cut, size):
    return [node for node in sound if 2 * sum(linked(node, o, cut) for o in sound) > size]


def find_following(sound, cut, limping, size):
    """The nodes that follow whoever leads: see above."""
    may_lead = find_may_lead(sound, cut, size)
    bad = cut | limping
    return {
        node for node in sound if may_lead and all(linked(node, leader, bad) for leader in may_lead)
    }


def find_well(sound, cut, limping, size):
    """The nodes that are well: see above."""
    may_lead = find_may_lead(sound, cut, size)
    bad = cut | limping

    def reaches(node, leader):
        if linked(node, leader, bad):
            return True
        between = sound - {node, leader} if frozenset((node, leader)) in cut else set()
        return any(linked(node, o, bad) and linked(o, leader, bad) for o in between)

    return {node for node in sound if may_lead and all(reaches(node, o) for o in may_lead)}
