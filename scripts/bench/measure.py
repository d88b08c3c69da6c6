"""Measuring: loads against contenders in turn, and what their figures mean against each other.

A case names its contenders. They are measured in turn, round after round (A B C A B C ...), so
that whatever else the machine does falls on all of them alike; a ratio is made within each round,
and the median over the rounds is what counts.
"""

import json
import statistics

from processes import BenchError, cpu_of_machine, run_timed

WARM_UP_S = 1.0
LOAD_LIMIT_S = 120


class Sample:
    """One load on one contender: the load's report, and the CPU seconds of the servers, of the load
    and of the machine (busy, all)."""

    def __init__(self, report, server_cpu, load_cpu, machine_cpu):
        self.report = report
        self.user_s, self.system_s = server_cpu
        self.load_s = sum(load_cpu)
        self.busy_s, self.machine_s = machine_cpu

    def others_percent(self):
        """How much of the machine was used by processes that have no part in this."""
        others_s = self.busy_s - self.user_s - self.system_s - self.load_s
        return max(0.0, 100 * others_s / self.machine_s) if self.machine_s > 0 else 0.0

    def figures(self):
        """All figures of this sample by name."""
        good = max(1, self.report["good"])
        ids = self.report["ids"]["count"] or good
        cpu_s = self.user_s + self.system_s
        latency = self.report["latency_us"]
        return {
            "rate": self.report["rate"],
            "ids_rate": self.report["ids_rate"] or self.report["rate"],
            "cpu_us": 1e6 * cpu_s / good,
            "user_us": 1e6 * self.user_s / good,
            "system_us": 1e6 * self.system_s / good,
            "ids_per_cpu_s": ids / cpu_s if cpu_s > 0 else 0.0,
            "load_us": 1e6 * self.load_s / good,
            "others": self.others_percent(),
            **{name: latency[name] for name in ("p50", "p99", "p99.9", "max")},
        }


class Contender:
    """What is measured: servers that take a load, and the command that makes it.

    check(report) may raise a BenchError for what the load itself cannot see.
    """

    def __init__(self, name, label, servers, command, check=None):
        self.name = name
        self.label = label
        self.servers = servers
        self.command = command
        self.check = check

    def measure(self, seconds):
        before = [cpu_of_machine(), *(server.cpu() for server in self.servers)]
        report, load_cpu = run_load([*self.command[:1], "--seconds", str(seconds),
                                     *self.command[1:]], seconds)
        after = [cpu_of_machine(), *(server.cpu() for server in self.servers)]
        for server in self.servers:
            server.check()
        if self.check:
            self.check(report)
        spent = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after)]
        servers = [sum(pair[part] for pair in spent[1:]) for part in (0, 1)]
        return Sample(report, servers, load_cpu, spent[0])


def run_load(command, seconds):
    """Run a load generator; (its report, its CPU seconds). Anything wrong in it is an error."""
    code, out, errors, cpu = run_timed(command, seconds + LOAD_LIMIT_S)
    try:
        report = json.loads(out)
    except ValueError:
        raise BenchError(f"'{' '.join(command)}' ended with {code}: {errors or out}") from None
    if code != 0 or not report["ok"]:
        raise BenchError(f"'{' '.join(command)}' found replies that are not as they must be: "
                         f"{report['first_bad']}\n{json.dumps(faults_of(report))}")
    return report, cpu


def faults_of(report):
    """What of a report is not as it must be."""
    names = ("statuses", "bad_body", "broken", "closed", "unanswered", "ids")
    return {name: report[name] for name in names if report.get(name)}


class Target:
    """A bound on a ratio of two contenders' figures: at least or at most."""

    def __init__(self, figure, of, against, at_least=None, at_most=None, text=None):
        self.figure = figure
        self.of = of
        self.against = against
        self.at_least = at_least
        self.at_most = at_most
        self.text = text or f"{FIGURES[figure][0]}: {of} / {against}"

    def bound(self):
        return f"≥ {self.at_least}" if self.at_least is not None else f"≤ {self.at_most}"

    def ratios(self, rounds):
        """The ratio in each round; rounds: a list of {contender: figures}."""
        return [divide(figures[self.of][self.figure], figures[self.against][self.figure])
                for figures in rounds]

    def judge(self, rounds):
        """{"median", "min", "max", "reached", ...} for the report."""
        ratios = self.ratios(rounds)
        median = statistics.median(ratios)
        reached = median >= self.at_least if self.at_least is not None else median <= self.at_most
        return {"text": self.text, "bound": self.bound(), "median": median, "min": min(ratios),
                "max": max(ratios), "reached": reached}


def divide(a, b):
    return a / b if b else float("inf")


# Figure: (what it is, unit, digits after the point).
FIGURES = {
    "rate": ("replies a second", "/s", 0),
    "ids_rate": ("ids a second", "/s", 0),
    "cpu_us": ("CPU time per request", "µs", 2),
    "user_us": ("user time per request", "µs", 2),
    "system_us": ("system time per request", "µs", 2),
    "ids_per_cpu_s": ("ids per CPU second", "/s", 0),
    "load_us": ("the load's own CPU time per request", "µs", 2),
    "others": ("of the machine, used by others", "%", 0),
    "p50": ("latency, median", "µs", 0),
    "p99": ("latency, p99", "µs", 0),
    "p99.9": ("latency, p99.9", "µs", 0),
    "max": ("latency, longest", "µs", 0),
}


def medians(rounds, name):
    """The median of each figure of a contender over the rounds."""
    return {figure: statistics.median(figures[name][figure] for figures in rounds)
            for figure in FIGURES}


def run_rounds(contenders, rounds, seconds, say):
    """Measure in turn; a list, one {contender: figures} a round."""
    for contender in contenders:
        contender.measure(WARM_UP_S)
    results = []
    for number in range(1, rounds + 1):
        figures = {}
        for contender in contenders:
            figures[contender.name] = contender.measure(seconds).figures()
        results.append(figures)
        say(f"round {number} of {rounds}: " + ", ".join(
            f"{name} {one['ids_rate']:.0f}/s at {one['cpu_us']:.1f} µs"
            for name, one in figures.items())
            + f"; others {max(one['others'] for one in figures.values()):.0f} %")
    return results
