"""Counters of a client."""
from __future__ import annotations

import threading
from typing import Dict

COUNTERS = {
    "ids_segment": "Ids handed out by segment sources",
    "ids_strict": "Ids handed out by strict sources",
    "ids_snowflake": "Ids handed out by snowflake sources",
    "requests": "Requests sent to nodes",
    "retries": "Requests that were sent once more",
    "failovers": "Changes to another node",
    "errors": "Calls that ended in an error",
    "waits": "Calls that had to wait for a request",
    "burnt": "Ids dropped unused",
    "clock_waits": "Calls that had to wait for the clock",
    "renewals": "Windows of worker ids that were renewed",
}


class Stats:
    """Any thread may count; none does on the path of an id that is there already."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(COUNTERS, 0)

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._values[name] += count

    def values(self) -> Dict[str, int]:
        with self._lock:
            return dict(self._values)


def text(values: Dict[str, int]) -> str:
    """For Prometheus."""
    lines = []
    for name, about in COUNTERS.items():
        metric = f"leafd_client_{name}_total"
        lines += [f"# HELP {metric} {about}.", f"# TYPE {metric} counter",
                  f"{metric} {values[name]}"]
    return "\n".join(lines) + "\n"
