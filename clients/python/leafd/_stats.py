"""Counters of a client."""
from __future__ import annotations

import threading
from typing import Dict, NamedTuple

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
    "hedges": "Second requests, sent while a caller waited for the first",
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


class Gauges(NamedTuple):
    """Of now: what segment sources hold by their tags, and of snowflake sources by their names."""

    ids_left: Dict[str, int]
    range_age_ms: Dict[str, int]  # of the oldest range, since it was asked for
    window_end_ms: Dict[str, int]  # of the worker id, by the clock of the ids


def text(values: Dict[str, int], gauges: Gauges) -> str:
    """For Prometheus."""
    lines = []
    for name, about in COUNTERS.items():
        metric = f"leafd_client_{name}_total"
        lines += [f"# HELP {metric} {about}.", f"# TYPE {metric} counter",
                  f"{metric} {values[name]}"]
    for metric, about, label, table, unit in (
            ("ids_left", "Ids held", "tag", gauges.ids_left, 1),
            ("range_age_seconds", "Age of the oldest range held", "tag", gauges.range_age_ms, 1000),
            ("window_end_seconds", "Unix time at which the window of a worker id ends", "name",
             gauges.window_end_ms, 1000)):
        if table:
            metric = f"leafd_client_{metric}"
            lines += [f"# HELP {metric} {about}.", f"# TYPE {metric} gauge"]
        for name, value in table.items():
            shown = name.replace("\\", "\\\\").replace('"', '\\"')
            number = value if unit == 1 else f"{value / unit:.3f}"
            lines.append(f'{metric}{{{label}="{shown}"}} {number}')
    return "\n".join(lines) + "\n"
