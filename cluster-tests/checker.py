"""The checker of histories: every id of every client over a whole run, none of them twice, and
those of a node rising.

Each client keeps one Track a node and tag: what it was given there, in order, as ranges
(neighbouring ids are merged as they come). At the end History.check() sorts the ranges of all
tracks of a tag and looks for an overlap: uniqueness over all clients, nodes, kills and restarts. A
track also sees at once when ids of one node fall for one client.

Between the clients of a node it takes the times of their requests to tell: ids that were asked for
after an answer had been received are above those of that answer, also over a restart of the node.
Each answer is kept for that, with its times, 32 bytes of them. Answers that are added without times
are compared within their track only. A tag whose ids begin anew needs a name of its own for it.
"""

import threading
import time
from array import array

INT64_LAST_ID = (1 << 63) - 2


class Answers:
    """Ranges of ids, each with the time its request was sent, at the earliest, and the time its
    answer was received, at the latest."""

    def __init__(self):
        self.firsts = array("q")
        self.lasts = array("q")
        self.sent = array("q")
        self.received = array("q")

    def __len__(self):
        return len(self.firsts)

    def add(self, first, last, sent_ns, received_ns):
        assert sent_ns <= received_ns <= time.monotonic_ns(), (sent_ns, received_ns)
        self.firsts.append(min(first, INT64_LAST_ID))
        self.lasts.append(min(last, INT64_LAST_ID))
        self.sent.append(sent_ns)
        self.received.append(received_ns)

    def extend(self, other):
        for name in ("firsts", "lasts", "sent", "received"):
            getattr(self, name).extend(getattr(other, name))

    def tell(self, at):
        return (
            f"{self.firsts[at]}..{self.lasts[at]} (sent {self.sent[at]}, "
            f"received {self.received[at]})"
        )

    def fallen(self, limit=10):
        """Texts on ids that are not above those received before they were asked for."""
        by_sent = sorted(range(len(self)), key=self.sent.__getitem__)
        by_received = sorted(range(len(self)), key=self.received.__getitem__)
        found = []
        done = 0
        top = None  # the highest of those received so far
        for at in by_sent:
            while self.received[by_received[done]] < self.sent[at]:
                other = by_received[done]
                if top is None or self.lasts[other] > self.lasts[top]:
                    top = other
                done += 1
            if top is not None and self.firsts[at] <= self.lasts[top]:
                found.append(f"{self.tell(at)} was asked for after {self.tell(top)}")
                if len(found) == limit:
                    break
        return found


class Track:
    """What one client was given by one node for one tag, in the order of its requests."""

    def __init__(self, client, node_id, tag):
        self.client = client
        self.node_id = node_id
        self.tag = tag
        self.firsts = array("q")
        self.lasts = array("q")
        self.answers = Answers()
        self.count = 0
        self.violation = None

    def add(self, first, last, answer=None):
        """The ids of an answer, or some of them; answer (a Response, or Ranges) has its times."""
        if answer is not None and answer.sent_ns is not None:
            self.answers.add(first, last, answer.sent_ns, answer.received_ns)
        if not 0 < first <= last <= INT64_LAST_ID:
            self.note(f"range {first}..{last} is no range of ids")
        if not self.lasts:
            self.firsts.append(first)
            self.lasts.append(last)
        else:
            previous = self.lasts[-1]
            if first == previous + 1:
                self.lasts[-1] = last
            else:
                if first <= previous:
                    self.note(f"{first} came after {previous}")
                self.firsts.append(first)
                self.lasts.append(last)
        self.count += last - first + 1

    def note(self, text):
        if self.violation is None:
            self.violation = f"client {self.client}, node {self.node_id}, tag {self.tag}: {text}"


class History:
    """All tracks of a run."""

    def __init__(self):
        self.tracks = []
        self.lock = threading.Lock()

    def track(self, client, node_id, tag):
        track = Track(client, node_id, tag)
        with self.lock:
            self.tracks.append(track)
        return track

    def total(self, tag=None):
        with self.lock:
            return sum(track.count for track in self.tracks if tag in (None, track.tag))

    def highest(self, tag):
        """The largest id handed out so far, 0 if none."""
        with self.lock:
            return max((max(t.lasts) for t in self.tracks if t.tag == tag and t.lasts), default=0)

    def violations(self):
        """Texts of all that is wrong: ids that fell, ids handed out twice (the first few)."""
        found = [track.violation for track in self.tracks if track.violation]
        found.extend(self.fallen())
        for tag in sorted({track.tag for track in self.tracks}):
            found.extend(self.overlaps(tag))
        return found

    def fallen(self):
        """Texts on ids of a tag that fell on a node, over all of its clients."""
        nodes = {}
        for track in self.tracks:
            place = (track.node_id, track.tag)
            nodes.setdefault(place, Answers()).extend(track.answers)
        return [
            f"node {node_id}, tag {tag}: {text}"
            for (node_id, tag), answers in nodes.items()
            for text in answers.fallen()
        ]

    def overlaps(self, tag, limit=10):
        ranges = []
        for track in self.tracks:
            if track.tag == tag:
                who = (track.client, track.node_id)
                ranges.extend((f, l, who) for f, l in zip(track.firsts, track.lasts))
        ranges.sort()
        found = []
        top = (0, 0, None)
        for entry in ranges:
            if entry[0] <= top[1]:
                found.append(f"tag {tag}: {entry} repeats {top} (first, last, (client, node))")
                if len(found) == limit:
                    break
            if entry[1] > top[1]:
                top = entry
        return found

    def check(self):
        """Fail on any violation; returns how many ids were checked."""
        found = self.violations()
        assert not found, "\n".join(found)
        return self.total()
