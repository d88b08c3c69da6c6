"""The checker of histories: every id of every client over a whole run, and none of them twice.

Each client keeps one Track a node and tag: what it was given there, in order, as ranges
(neighbouring ids are merged as they come). At the end History.check() sorts the ranges of all
tracks of a tag and looks for an overlap: uniqueness over all clients, nodes, kills and restarts. A
track also sees at once when ids of one node fall for one client.
"""

import threading
from array import array

INT64_LAST_ID = (1 << 63) - 2


class Track:
    """What one client was given by one node for one tag, in the order of its requests."""

    def __init__(self, client, node_id, tag):
        self.client = client
        self.node_id = node_id
        self.tag = tag
        self.firsts = array("q")
        self.lasts = array("q")
        self.count = 0
        self.violation = None

    def add(self, first, last):
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
        for tag in sorted({track.tag for track in self.tracks}):
            found.extend(self.overlaps(tag))
        return found

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
