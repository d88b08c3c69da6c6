"""What was done to the cluster, and when: the nemesis writes it, the judge and the page read it.

An event is a dict with its time t (CLOCK_MONOTONIC, ns) and
  what="episode"   number, family: it begins; what="healed": its faults are over
  what="begin"     fault (a number), kind, nodes, text: a bar of the page begins; what="end": and
                   ends
  what="effect"    effect, and on or off: what this does to the cluster, for health.py:
                   "down" (the process is gone, or going), "paused", "disk", "clock" with a node;
                   "links" with links [[source, target], ...] that are cut, "limping" with links
                   that carry, but not as they should;
                   "members" with ids: who votes from now on; "changing" with lost: the membership
                   changes, and this member, if any, does not come back
  what="starved"   end: from t until then the machine had no time for a thread of this run
  what="note"      text, for people
"""

import json
import threading
import time


class Events:
    def __init__(self, path=None):
        self.all = []
        self.lock = threading.Lock()
        self.file = open(path, "w", encoding="utf-8", buffering=1) if path else None

    def add(self, what, at=None, **more):
        """at: when it began, if that was not now."""
        event = {"t": at or time.monotonic_ns(), "what": what, **more}
        with self.lock:
            self.all.append(event)
            if self.file is not None:
                self.file.write(json.dumps(event) + "\n")
        return event

    def effect(self, effect, on, **more):
        return self.add("effect", effect=effect, on=on, **more)

    def close(self):
        if self.file is not None:
            self.file.close()
