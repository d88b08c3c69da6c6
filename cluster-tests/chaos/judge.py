"""Everything that has to hold, looked at when the run is over.

  uniqueness     no id of a space twice: over all clients, nodes, lives
  order          ids of a tag rise on a node; of a strict or monotonic tag over all nodes;
                 snowflake ids of a worker id on its node. "Rise": above every id whose reply
                 arrived before the request was sent
  strict         what check-history demands of both: of strict tags also that no id is missing
  range          ids are 1 to 2^63 - 2; no id of a tag is at or above the tag's max_id in the end
  snowflake      the worker id in an id is one that its node held at the id's time; the time is near
  worker ids     windows of two epochs do not overlap
  values         of tags: a read shows what was acknowledged before it was sent, whoever answers it;
                 what was overwritten does not come back (register.py)
  tables         all nodes have the same in the end, and what was acknowledged is among it
  errors         only where permitted (health.py); an answer in the time that the request allowed
  terms          one leader a term; term, commit and applied index never fall in a node's life;
                 leadership does not go round and round
  recovery       every node settled within 10 s of healing

The happy path: judge = Judge(run); judge.findings is empty. What a search would have taken too long
to decide is in judge.undecided: it is told and counted, and is no finding.
"""

import os
from array import array
from collections import Counter, defaultdict

from chaos import history, register, strictness
from chaos.history import FAIL, MORE, OK, UNKNOWN
from chaos.series import Series

NS = 1_000_000_000
RECOVERY_NS = 10 * NS
# What an answer may take beyond the time that its request allows, on a machine that is shared.
LATE_NS = 2 * NS
FIRST_BITS = 63
COUNT_BITS = 17
EPOCH_MS = 1288834974657
# How far the time in an id may be off: the threshold of the clock check and some for waiting.
TIME_OFF_MS = 5000
SHOWN = 10
FOREVER = 1 << 63
MODE_SWITCHED = "chaos/swing"
# Elections follow each other by half an election timeout at the fastest, but for hand-overs.
TERMS_SPAN_NS = 5 * NS
TERMS_A_SPAN = 80


class IdSpace:
    """All ranges of a space, in arrays: 44 bytes a range."""

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.firsts = array("Q")
        self.counts = array("I")
        self.invs = array("Q")
        self.rets = array("Q")
        self.nodes = array("H")
        self.clients = array("H")

    def add(self, op):
        self.firsts.append(op.first)
        self.counts.append(op.count)
        self.invs.append(op.inv_ns)
        self.rets.append(op.ret_ns)
        self.nodes.append(op.node)
        self.clients.append(op.client)

    def total(self):
        return sum(self.counts)

    def tell(self, at):
        first, last = self.firsts[at], self.firsts[at] + self.counts[at] - 1
        begin, end = self.invs[at], self.rets[at]
        return (
            f"{first}..{last} (client {self.clients[at]}, node {self.nodes[at]}, "
            f"asked at {begin}, answered at {end})"
        )

    def repeated(self):
        """Texts on ids that were handed out twice."""
        keys = sorted(
            first << COUNT_BITS | count for first, count in zip(self.firsts, self.counts)
        )
        found = []
        top = 0
        mask = (1 << COUNT_BITS) - 1
        for key in keys:
            first, count = key >> COUNT_BITS, key & mask
            if first < top:
                found.append((first, count))
                if len(found) >= SHOWN:
                    break
            top = max(top, first + count)
        return [f"{self.name}: handed out twice: {self.find(*one)}" for one in found]

    def find(self, first, count):
        """Who was given any of these."""
        last = first + count - 1
        hits = [
            self.tell(at)
            for at in range(len(self.firsts))
            if self.firsts[at] <= last and self.firsts[at] + self.counts[at] > first
        ]
        return " and ".join(hits[:4])

    def fallen(self, key):
        """Texts on ids that did not rise, among those of equal key(at)."""
        groups = defaultdict(list)
        for at in range(len(self.firsts)):
            groups[key(at)].append(at)
        found = []
        for indexes in groups.values():
            found += self.fallen_of(indexes)
        return found[:SHOWN]

    def fallen_while(self, begin, end, strict_from):
        """Of a tag that was in no trend mode in this time: ids from strict_from on rise, and
        whatever is asked for after one of them was answered is above it."""
        times = zip(self.invs, self.rets)
        indexes = [at for at, (inv, ret) in enumerate(times) if begin < inv and ret < end]
        return self.fallen_of(indexes, strict_from)[:SHOWN]

    def fallen_of(self, indexes, least=0):
        by_inv = sorted(indexes, key=self.invs.__getitem__)
        by_ret = sorted(indexes, key=self.rets.__getitem__)
        found = []
        done = 0
        top, top_at = 0, None
        for at in by_inv:
            while done < len(by_ret) and self.rets[by_ret[done]] < self.invs[at]:
                other = by_ret[done]
                last = self.firsts[other] + self.counts[other] - 1
                if last > top and self.firsts[other] >= least:
                    top, top_at = last, other
                done += 1
            if self.firsts[at] <= top:
                found.append(f"{self.name}: {self.tell(at)} came after {self.tell(top_at)}")
                if len(found) >= SHOWN:
                    break
        return found

    def holes(self):
        """How many ids between the lowest and the highest were not seen."""
        if not self.firsts:
            return 0
        top = max(first + count for first, count in zip(self.firsts, self.counts))
        return top - min(self.firsts) - self.total()


class Judge:
    """run: records (paths), journals (lists of entries), spaces {number: (name, kind)}, health,
    samples, events, tables, texts, clock (wall minus monotonic, ms)."""

    def __init__(self, run):
        self.run = run
        self.findings = []
        self.undecided = []  # texts on what would have taken too long to find out
        self.spaces = {}
        self.errors = Counter()  # (node, kind, code): how many were permitted
        self.outcomes = Counter()
        self.requests = Counter()  # by kind
        self.recoveries = []
        self.series = Series(run.begin_ns, run.end_ns)
        self.admin_counts = count_changes(run.journals)
        self.told = Counter()
        self.look()

    def add(self, check, texts):
        self.findings += [{"check": check, "text": text} for text in texts]

    def look(self):
        run = self.run
        for path in run.records:
            for op in history.read(path):
                self.take(op)
        self.count_errors()
        for check, text in run.texts:
            self.add(check, [text])
        for space in self.spaces.values():
            self.add("uniqueness", space.repeated())
            self.add("order", self.order_of(space))
            for begin, end, strict_from in strict_times(run.journals, space.name):
                self.add("order", space.fallen_while(begin, end, strict_from))
        snowflakes = [s for s in self.spaces.values() if s.kind == history.SNOWFLAKE]
        for space in snowflakes:
            self.add("snowflake", self.wrong_workers(space))
        path = os.path.join(run.directory, "load", "strict.history")
        wrong, undecided = strictness.check(path, run.records, run.journals, run.kinds)
        self.add("strict", wrong)
        self.undecided += undecided
        self.add("worker ids", overlapping_windows(run.journals, run.workers))
        self.add("tables", wrong_tables(run.tables))
        wrong, undecided = wrong_values(run.journals, run.tables)
        self.add("values", wrong)
        self.undecided += undecided
        self.add("range", self.beyond_max())
        self.add("terms", wrong_terms(run.samples))
        self.add("terms", hasty_terms(run.samples))
        self.look_at_recoveries()

    # --- one request ---

    def take(self, op):
        kind = op.kind
        outcome = op.outcome & ~MORE
        self.series.add(op)
        if not op.outcome & MORE:
            self.requests[kind] += 1
            self.outcomes[op.node, outcome] += 1
            self.look_at_answer(op, outcome)
        if outcome == OK and kind in history.ID_KINDS:
            space = self.spaces.get(op.space)
            if space is None:
                space = self.spaces[op.space] = IdSpace(self.run.spaces[op.space], kind)
            if not 1 <= op.first <= op.first + op.count - 1 <= (1 << FIRST_BITS) - 2:
                self.add("range", [f"{space.name}: {op.first} and {op.count - 1} more"])
            space.add(op)

    def look_at_answer(self, op, outcome):
        health = self.run.health
        end = op.ret_ns
        if outcome != OK:
            code = history.CODES[op.code]
            minds_clock = op.kind in (history.SNOWFLAKE, history.WORKER)
            self.errors[op.node, op.kind, code] += 1
            if code == "timeout" and self.run.spaces.get(op.space) == MODE_SWITCHED:
                code = "mode_changing"  # whichever is noticed first at the end of the time
            if not health.permits(op.node, op.inv_ns, end, op.wait_ms, code, minds_clock):
                self.tell_error(op, f"{op.status or ''} {code}".strip())
        late = op.inv_ns + op.wait_ms * 1_000_000 + LATE_NS
        if health.starved.meets(op.inv_ns, late):
            late += 2 * LATE_NS
        if (end or self.run.end_ns) > late and not health.is_unwell(op.node, op.inv_ns, late):
            self.tell_error(op, "a late answer", f"{((end or late) - op.inv_ns) / NS:.1f} s")

    def tell_error(self, op, what, detail=""):
        """A finding for the first of its like in an episode; the others are counted."""
        kind = history.KIND_NAMES[op.kind]
        like = (self.run.episode_at(op.inv_ns), op.node, kind, what)
        self.told[like] += 1
        if self.told[like] > 1:
            return
        name = self.run.spaces.get(op.space, "")
        self.add("errors", [
            f"episode {like[0]}: node {op.node} was well and a client ({kind} {name}, timeout_ms="
            f"{op.wait_ms}) saw {what} {detail} at {self.run.offset(op.ret_ns)}, having asked at "
            f"{self.run.offset(op.inv_ns)}"
        ])  # fmt: skip

    def count_errors(self):
        """Say how many were like those that were told."""
        for finding, (_, count) in zip(
            [f for f in self.findings if f["check"] == "errors"], self.told.items()
        ):
            if count > 1:
                finding["text"] += f" (and {count - 1} more like it)"

    # --- ids ---

    def order_of(self, space):
        if space.kind in history.RISING:
            return space.fallen(lambda at: 0)
        if space.kind == history.SEGMENT:
            return space.fallen(space.nodes.__getitem__)
        return space.fallen(lambda at: (space.nodes[at], space.firsts[at] >> 12 & 1023))

    def beyond_max(self):
        found = []
        for space in self.spaces.values():
            row = next((t[space.name] for t in self.run.tables.values() if space.name in t), None)
            if row is None or not space.firsts:
                continue
            top = max(first + count for first, count in zip(space.firsts, space.counts))
            if top > int(row["max_id"]):
                found.append(f"{space.name}: {top - 1} was handed out, max_id is {row['max_id']}")
        return found

    def wrong_workers(self, space):
        """Ids whose worker id another node held at their time, or whose time is far off."""
        grants = defaultdict(list)
        for (worker, _), row in self.run.workers.items():
            grants[worker].append(row)
        found = []
        for at in range(len(space.firsts)):
            ms = (space.firsts[at] >> 22) + EPOCH_MS
            holder = holder_at(grants[space.firsts[at] >> 12 & 1023], ms)
            if holder is not None and not holder.startswith(f"node-{space.nodes[at]}/"):
                found.append(f"{space.name}: {space.tell(at)}: its worker id was {holder}'s")
            wall = space.rets[at] // 1_000_000 + self.run.clock_ms
            if abs(wall - ms) > TIME_OFF_MS + (space.rets[at] - space.invs[at]) // 1_000_000:
                found.append(f"{space.name}: {space.tell(at)}: its time is off by {ms - wall} ms")
            if len(found) >= SHOWN:
                break
        return found

    # --- recovery ---

    def look_at_recoveries(self):
        for event in self.run.events:
            if event["what"] != "healed":
                continue
            for node in event["nodes"]:
                settled = self.run.health.settled_after(node, event["t"])
                taken = settled - event["t"]
                if settled >= self.run.end_ns:
                    self.add("recovery", [f"node {node} did not settle after episode "
                                          f"{event['number']} ({event['family']})"])  # fmt: skip
                    continue
                self.recoveries.append((event["number"], node, taken))
                # A machine that has no time for anybody takes its time from all.
                starved = self.run.health.starved.within(event["t"], settled)
                if taken - starved > RECOVERY_NS:
                    self.add("recovery", [
                        f"node {node} settled only {taken / NS:.1f} s after the end of episode "
                        f"{event['number']} ({event['family']}); for {starved / NS:.1f} s the "
                        "machine was starved"
                    ])  # fmt: skip


def holder_at(rows, ms):
    """The name of who held a worker id at this time of its axis; None if that was not seen."""
    for row in rows:
        if row["from_ms"] < ms <= row["until_ms"]:
            return row["name"]
    return None


def overlapping_windows(journals, seen):
    """Windows of one worker id whose epochs do not follow on each other. What a holder released
    counts up to the last time it claimed to have used."""
    windows = {}  # (worker, epoch): [from, until, who]
    for (worker, epoch), row in seen.items():
        windows[worker, epoch] = [row["from_ms"], row["until_ms"], row["name"]]
        if row["state"] == "released" and row["last_timestamp_ms"]:
            windows[worker, epoch][1] = min(row["until_ms"], row["last_timestamp_ms"])
    released = {}
    for entry in journals:
        grant = entry.get("grant")
        if grant is None:
            continue
        key = (grant["worker_id"], grant["epoch"])
        who = f"client {entry['client']}"
        window = windows.setdefault(key, [grant["from_ms"], grant["until_ms"], who])
        window[1] = max(window[1], grant["until_ms"])
        if entry["op"] == "releasing":
            released[key] = entry["last_ms"]
    for key, last in released.items():
        windows[key][1] = min(windows[key][1], last)
    found = []
    before = None
    for key in sorted(windows):
        window = windows[key]
        if before is not None and before[0][0] == key[0] and window[0] < before[1][1]:
            found.append(f"worker id {key[0]}: epoch {key[1]} {window} begins within epoch "
                         f"{before[0][1]} {before[1]}")  # fmt: skip
        before = (key, window)
    return found[:SHOWN]


def count_changes(journals):
    """How many changes of the tables were acknowledged, and how many may have been done."""
    outcomes = Counter(e["outcome"] for e in journals if e["op"] not in ("read", "keyed"))
    return {"acknowledged": outcomes[OK], "unknown": outcomes[UNKNOWN]}


def strict_times(journals, tag):
    """[(begin, end, max_id at the begin)]: when a tag that changes its mode was strict or
    monotonic, from the answer to that change until another is sent."""
    changes = [e for e in journals if e["op"] == "mode" and e["tag"] == tag]
    changes.sort(key=lambda entry: entry["inv"])
    found = []
    for at, change in enumerate(changes):
        if change["mode"] != "trend" and change["outcome"] == OK:
            end = changes[at + 1]["inv"] if at + 1 < len(changes) else FOREVER
            found.append((change["ret"], end, change["max_id"]))
    return found


def registers(journals, tables):
    """{name: the operations on it (register.py)}. In the end each node's table is read."""
    found = defaultdict(list)
    latest = 0
    for entry in journals:
        latest = max(latest, entry.get("inv", 0), entry.get("ret", 0))
        what = f"node {entry.get('node')}, {entry.get('inv')}..{entry.get('ret')}"
        if entry["op"] == "read":
            value = value_of(entry["found"])
            text = f"{entry['name']} was shown as {value} ({what})"
            found[entry["name"]].append(register.read(value, entry["inv"], entry["ret"], text))
        if "values" not in entry or entry["outcome"] == FAIL:
            continue
        received = entry["ret"] if entry["outcome"] == OK else None
        before = entry.get("before") if entry["outcome"] == OK else None
        for name, value in entry["values"].items():
            value = value_of(value)
            text = f"{name} was made {value}, having been {before or 'either'} ({what})"
            found[name].append(register.write(value, entry["inv"], received, before, text))
    for node, table in tables.items():
        for name, operations in found.items():
            value = value_of(table.get(name))
            text = f"{name} is {value} on node {node} in the end"
            operations.append(register.read(value, latest + 1, FOREVER - 1, text))
    return found


def value_of(row):
    return None if row is None else (row["step"], row["description"])


def wrong_values(journals, tables):
    """Texts on reads that did not show what had been acknowledged before, on changes that came
    back after they were overwritten, on tables in the end that none of it explains; and texts on
    names for which that was not decided."""
    found, undecided = [], []
    for name, operations in sorted(registers(journals, tables).items()):
        text, unknown = register.check(operations)
        found += [text] if text else []
        undecided += [f"{name}, {len(operations)} reads and writes"] if unknown else []
    return found[:SHOWN], undecided


def wrong_tables(tables):
    """tables: {node: {name: row}}, all that each node has."""
    found = []
    first = next(iter(tables), None)
    for node in tables:
        differing = {
            name
            for name in tables[node].keys() | tables[first].keys()
            if tables[node].get(name) != tables[first].get(name)
        }
        for name in sorted(differing)[:SHOWN]:
            found.append(f"{name} is {tables[first].get(name)} on node {first} and "
                         f"{tables[node].get(name)} on node {node}")  # fmt: skip
    return found[: 2 * SHOWN]


def wrong_terms(samples):
    """Two leaders in a term; numbers that fell while a process lived."""
    found = []
    leaders = {}
    last = {}
    for sample in samples:
        if "term" not in sample:
            continue
        node, term = sample["node"], sample["term"]
        if sample["state"] == "leader" and leaders.setdefault(term, node) != node:
            found.append(f"nodes {leaders[term]} and {node} both led in term {term}")
        before = last.get(node)
        if before is not None and before["life"] == sample["life"]:
            for field in ("term", "commit", "applied"):
                if sample[field] < before[field]:
                    found.append(f"node {node}: {field} fell from {before[field]} to "
                                 f"{sample[field]} at {sample['t']}")  # fmt: skip
        last[node] = sample
    return found[:SHOWN]


def hasty_terms(samples):
    """Terms that rose by many in a short time, though nobody saw all of them."""
    risen = []  # (time, the highest term so far)
    top = start = 0
    for time, term in sorted((s["t"], s["term"]) for s in samples if "term" in s):
        if term <= top:
            continue
        top = term
        risen.append((time, top))
        while risen[start][0] < time - TERMS_SPAN_NS:
            start += 1
        # The one before the span was the highest until its begin.
        first = risen[max(start - 1, 0)][1]
        if top - first > TERMS_A_SPAN:
            return [f"terms rose from {first} to {top} in {TERMS_SPAN_NS // NS} s, until {time}"]
    return []
