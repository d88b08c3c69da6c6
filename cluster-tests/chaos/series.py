"""Throughput, latency and errors over time, for the page: by node, kind and second.

The happy path: Series(begin, end) is given each request once by add(), and as_dict() gives lists of
numbers, one for each slice of time (a second, or more in a long run).
"""

from array import array
from collections import defaultdict

from chaos import history
from chaos.history import MORE, OK

NS = 1_000_000_000
SLICES = 1200
GROUPS = ["segment", "snowflake", "strict", "admin", "all"]
ALL = 4
GROUP_OF = {
    history.SEGMENT: 0, history.SNOWFLAKE: 1, history.STRICT: 2, history.ADMIN: 3,
    history.READ: 3, history.WORKER: 3, history.STRICT_KEY: 2, history.MONOTONIC: 2,
}  # fmt: skip


class Cell:
    """One node and group in one slice."""

    def __init__(self):
        self.ids = 0
        self.errors = 0
        self.micros = array("I")


class Series:
    def __init__(self, begin_ns, end_ns):
        self.begin_ns = begin_ns
        seconds = max(1, -(-(end_ns - begin_ns) // NS))
        self.slice_s = -(-seconds // SLICES)
        self.count = -(-seconds // self.slice_s)
        self.cells = defaultdict(Cell)

    def place(self, time_ns):
        at = (time_ns - self.begin_ns) // (self.slice_s * NS)
        return min(max(at, 0), self.count - 1)

    def add(self, op):
        """A request: latency where it was asked, ids and errors where it was answered."""
        self.add_to(GROUP_OF[op.kind], op)
        self.add_to(ALL, op)

    def add_to(self, group, op):
        more = op.outcome & MORE
        end_ns = op.ret_ns or op.inv_ns
        cell = self.cells[op.node, group, self.place(end_ns)]
        if op.outcome & ~MORE == OK:
            if op.kind in history.ID_KINDS:
                cell.ids += op.count
        else:
            cell.errors += 1
        if not more and op.outcome == OK:
            micros = min((op.ret_ns - op.inv_ns) // 1000, (1 << 32) - 1)
            self.cells[op.node, group, self.place(op.inv_ns)].micros.append(micros)

    def as_dict(self, nodes):
        """{node: {group: {ids, requests, errors, p50, p99, max}}}; latencies in ms, None: none."""
        return {
            node: {name: self.group(node, number) for number, name in enumerate(GROUPS)}
            for node in nodes
        }

    def group(self, node, group):
        rows = {name: [] for name in ("ids", "requests", "errors", "p50", "p99", "max")}
        for at in range(self.count):
            cell = self.cells.get((node, group, at))
            micros = sorted(cell.micros) if cell else ()
            rows["ids"].append(round(cell.ids / self.slice_s) if cell else 0)
            rows["requests"].append(round(len(micros) / self.slice_s, 1))
            rows["errors"].append(cell.errors if cell else 0)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                rows[name].append(quantile_ms(micros, share))
        return rows


def quantile_ms(micros, share):
    """Of a sorted list of microseconds; None for an empty one."""
    if not micros:
        return None
    return micros[min(len(micros) - 1, int(share * len(micros)))] / 1000
