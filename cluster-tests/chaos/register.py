"""Was a name of the tables a register? One that several clients wrote and read at the same time,
some without ever hearing what became of their writes.

An operation is a write of a value that no other write has (None: the name is deleted) or a read,
with the time it was sent and the time its answer was received. What must hold is linearizability:
each operation took effect at one moment between these two times, and each read showed what the
write before it left. So a read shows no value that was overwritten before it was sent; and a value
that was overwritten and seen to be does not come back, whoever wrote it and whatever became of that
request: a write takes effect once. A write whose outcome is unknown did so at any moment after it
was sent, or never. Some answers say more, and that has to fit, too: that a name was made, that it
was there.

The happy path: check(operations) returns (None, False). It goes through the moments in order and
tries which write was next, with these shortcuts that lose nothing:

  - A read that fits is taken at once: it changes nothing.
  - A value with reads still to come stays, since it cannot come back.
  - A write of unknown outcome that was seen took effect before it was first seen. One that was not
    seen matters only where the name has to be there, and a deletion of unknown outcome only where
    the name has to be gone: then one of those that were sent is used up.
  - A state that failed once is not entered again.

With many writes under way at once this can take long; after STEPS it is undecided.
"""

from collections import namedtuple

STEPS = 100_000
NEVER = 1 << 63
# What an answer says of the moment before a write.
THERE, GONE = "there", "gone"

# kind: "write" or "read". received: None if the outcome is unknown (of writes). value: anything
# that can be compared and hashed; None: the name is not there. before: THERE, GONE or None (not
# told). text: for the finding.
Operation = namedtuple("Operation", "kind value sent received before text")


def write(value, sent, received, before=None, text=""):
    return Operation("write", value, sent, received, before, text)


def read(value, sent, received, text=""):
    return Operation("read", value, sent, received, None, text)


def check(operations, steps=STEPS):
    """(what is wrong or None, whether it is undecided)."""
    search = Search(operations, steps)
    text = search.impossible() or search.run()
    return text, search.undecided


class Search:
    def __init__(self, operations, steps):
        self.steps = steps
        self.undecided = False
        self.reads = {}  # value: how many are still to come
        self.first_seen = {}  # value: the earliest time that an answer showed it
        self.erasers = []  # when deletions of unknown outcome were sent
        self.fillers = []  # when writes of unknown outcome that nobody saw were sent
        for one in operations:
            if one.kind == "read" and one.value is not None:
                self.reads[one.value] = self.reads.get(one.value, 0) + 1
                seen = self.first_seen.get(one.value, NEVER)
                self.first_seen[one.value] = min(seen, one.received)
        self.all = operations
        self.operations = sorted(filter(None, map(self.place, operations)), key=lambda o: o.sent)
        self.erasers.sort()
        self.fillers.sort()
        self.done = bytearray(len(self.operations))
        self.low = 0  # the first that is not done
        self.value = None
        self.used = {"eraser": 0, "filler": 0}
        self.failed = set()
        self.furthest = (-1, None)  # (how many operations were done, state)

    def place(self, one):
        """The operation with the time by which it took effect, or None if it is none that did."""
        if one.kind == "read" or one.received is not None:
            return one
        if one.value is None:
            self.erasers.append(one.sent)
            return None
        if one.value not in self.first_seen:
            self.fillers.append(one.sent)
            return None
        return one._replace(received=self.first_seen[one.value])

    def impossible(self):
        """Values that nobody wrote, or not yet."""
        sent = {one.value: one.sent for one in self.all if one.kind == "write"}
        for one in self.all:
            if one.kind == "read" and one.value is not None and one.value not in sent:
                return f"{one.text}: nobody wrote that"
            if one.kind == "read" and one.value is not None and sent[one.value] > one.received:
                return f"{one.text}: that was written later"
        return None

    # --- the search ---

    def run(self):
        """Depth first, with a stack of [choices left, what undoes the one that was made]."""
        self.take_reads([])
        stack = [[None, None]]
        while stack:
            choices, _ = stack[-1]
            if self.low == len(self.operations):
                return None
            if choices is None:
                choices = stack[-1][0] = self.choices()
            if not choices:
                self.undo(stack.pop()[1])
                continue
            self.steps -= 1
            if self.steps < 0:
                self.undecided = True
                return None
            choice = choices.pop()
            changes = self.make(choice)
            state = self.state()
            if state in self.failed:
                self.undo(changes)
                continue
            self.failed.add(state)  # or the run is over
            stack.append([None, changes])
        return self.tell()

    def state(self):
        tail = bytes(self.done[self.low : self.low + self.span()])
        return self.low, tail, self.value, self.used["eraser"], self.used["filler"]

    def span(self):
        """Behind so many from the first that is not done nothing is done yet."""
        limit = self.limit()
        at = self.low
        while at < len(self.operations) and self.operations[at].sent <= limit:
            at += 1
        return at - self.low

    def limit(self):
        """The earliest answer of what is not done: nothing that was sent later can be next."""
        limit = NEVER
        for at in range(self.low, len(self.operations)):
            one = self.operations[at]
            if one.sent > limit:
                break
            if not self.done[at]:
                limit = min(limit, one.received)
        return limit

    def candidates(self):
        """Places of what can be next."""
        limit = self.limit()
        found = []
        for at in range(self.low, len(self.operations)):
            if self.operations[at].sent > limit:
                break
            if not self.done[at]:
                found.append(at)
        return found

    def choices(self):
        """Writes that can be next, as (place, erasers used before, fillers used before); what ends
        first is last in the list, and tried first."""
        if self.value is not None and self.reads.get(self.value, 0):
            return []
        limit = self.limit()
        found = []
        for at in self.candidates():
            one = self.operations[at]
            if one.kind == "read":
                if one.value is None and self.value is not None:
                    found.append((at, 1, 0))
            elif one.before == THERE and self.value is None:
                found.append((at, 0, 1))
            elif one.before == GONE and self.value is not None:
                found.append((at, 1, 0))
            else:
                found.append((at, 0, 0))
        found = [
            choice for choice in found
            if self.is_sent(self.erasers, self.used["eraser"] + choice[1], limit)
            and self.is_sent(self.fillers, self.used["filler"] + choice[2], limit)
        ]  # fmt: skip
        return sorted(found, key=lambda choice: -self.operations[choice[0]].received)

    def is_sent(self, times, count, limit):
        return count == 0 or (count <= len(times) and times[count - 1] <= limit)

    def make(self, choice):
        """Take a write, and all reads that fit then; returns what undoes it."""
        at, erasers, fillers = choice
        changes = [self.low, self.value, dict(self.used), []]
        self.used["eraser"] += erasers
        self.used["filler"] += fillers
        self.value = self.operations[at].value
        self.finish(at, changes[3])
        self.take_reads(changes[3])
        return changes

    def finish(self, at, finished):
        one = self.operations[at]
        self.done[at] = 1
        finished.append(at)
        if one.kind == "read" and one.value is not None:
            self.reads[one.value] -= 1
        while self.low < len(self.operations) and self.done[self.low]:
            self.low += 1

    def take_reads(self, finished):
        taken = True
        while taken:
            taken = False
            for at in self.candidates():
                one = self.operations[at]
                if one.kind == "read" and one.value == self.value:
                    self.finish(at, finished)
                    taken = True
        state = self.state()
        count = state[0] + sum(state[1])
        if count > self.furthest[0]:
            self.furthest = (count, state)

    def undo(self, changes):
        if changes is None:
            return
        self.low, self.value, self.used, finished = changes
        for at in finished:
            one = self.operations[at]
            self.done[at] = 0
            if one.kind == "read" and one.value is not None:
                self.reads[one.value] += 1

    # --- what is wrong ---

    def tell(self):
        """What was in the way when most was done: the operation that had to be next, but for a read
        that shows the value before it, or by itself."""
        low, tail, value, _, _ = self.furthest[1]
        left = [one for at, one in enumerate(self.operations[low:])
                if at >= len(tail) or not tail[at]]  # fmt: skip
        due = min(left, key=lambda one: one.received)
        late = [one for one in left if one.kind == "read" and one.value == value]
        if value is not None and late and due not in late:
            return f"{min(late, key=lambda one: one.sent).text}: not after all this: {due.text}"
        return f"{due.text}: that fits into no order of the writes; it was {value} before"
