"""Measuring: loads against contenders in turn, and what their figures mean against each other.

A case names its contenders. They are measured in turn, round after round (A B C A B C ...), so
that whatever else the machine does falls on all of them alike; a ratio is made within each round,
and the median over the rounds is what counts.
"""

import json
import statistics

from processes import BenchError, cpu_of_machine, cpu_of_threads, run_timed

LOAD_LIMIT_S = 120


class Sample:
    """One load on one contender: the load's report, and the CPU seconds of the servers, the load,
    the machine (busy, all), and of kinds of threads by the name of their figure."""

    def __init__(self, report, server_cpu, load_cpu, machine_cpu, threads):
        self.report = report
        self.user_s, self.system_s = server_cpu
        self.load_s = sum(load_cpu)
        self.busy_s, self.machine_s = machine_cpu
        self.threads = threads

    def idle_percent(self):
        """How much of the machine nobody used: everybody waited, for the disk or for each other."""
        # The kernel's counts of all cores are not read at one instant.
        return max(0.0, 100 * (1 - self.busy_s / self.machine_s)) if self.machine_s > 0 else 0.0

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
            "idle": self.idle_percent(),
            **{name: 1e6 * spent_s / good for name, spent_s in self.threads.items()},
            **{name: latency[name] for name in ("p50", "p99", "p99.9", "max")},
        }


class Contender:
    """What is measured: servers that take a load, and the command that makes it, to which the time
    it shall take is appended.

    check(report) may raise a BenchError for what the load itself cannot see. threads names the
    figures that kinds of the servers' threads are to have: {name by cpu_of_threads(): figure}.
    """

    warm_up_s = 1.0

    def __init__(self, name, label, servers, command, check=None, threads=None):
        self.name = name
        self.label = label
        self.servers = servers
        self.command = command
        self.check = check
        self.threads = threads or {}

    def threads_cpu(self):
        """The seconds so far of each kind of threads that has a figure."""
        if not self.threads:
            return {}
        seconds = cpu_of_threads([pid for server in self.servers for pid in server.pids()])
        return {figure: seconds.get(name, 0.0) for name, figure in self.threads.items()}

    def measure(self, seconds):
        threads = self.threads_cpu()
        before = [cpu_of_machine(), *(server.cpu() for server in self.servers)]
        report, load_cpu = run_load([*self.command, "--seconds", str(seconds)], seconds)
        after = [cpu_of_machine(), *(server.cpu() for server in self.servers)]
        threads = {name: seconds - threads[name] for name, seconds in self.threads_cpu().items()}
        for server in self.servers:
            server.check()
        if self.check:
            self.check(report)
        spent = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after)]
        servers = [sum(pair[part] for pair in spent[1:]) for part in (0, 1)]
        return Sample(report, servers, load_cpu, spent[0], threads).figures()


class Procedure:
    """In place of a Contender: figures that are made in another way than by a load. what: that way
    in words; measured(seconds) gives the dictionary of figures."""

    warm_up_s = 0

    def __init__(self, name, label, servers, what, measured):
        self.name = name
        self.label = label
        self.servers = servers
        self.command = what
        self.measure = measured


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
    """A bound on the ratio of two contenders' figures, or, without `against`, on one's own figure:
    at least or at most; with neither it is only shown. against: a contender, or several, whose
    figures are added. pick says what of the rounds counts."""

    def __init__(self, figure, of, against=None, at_least=None, at_most=None,
                 pick=statistics.median):
        self.figure = figure
        self.of = of
        self.against = (against,) if isinstance(against, str) else against or ()
        self.at_least = at_least
        self.at_most = at_most
        self.pick = pick

    def text(self):
        what = FIGURES[self.figure][0]
        picked = "" if self.pick is statistics.median else f", {self.pick.__name__}"
        return f"{what}{picked}: {self.of}" + (f" / {self.below()}" if self.against else "")

    def below(self):
        """What stands below the line of the ratio."""
        names = " + ".join(self.against)
        return f"({names})" if len(self.against) > 1 else names

    def shown(self, value):
        """A value as the report shows it."""
        if self.against:
            return f"{value:.2f}"
        _, unit, digits = FIGURES[self.figure]
        return f"{value:,.{digits}f}{unit if unit[0] in '/%' else ' ' + unit}"

    def bound(self):
        if self.at_least is None and self.at_most is None:
            return ""
        sign, value = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {value:g}" if self.against else f"{sign} {self.shown(value)}"

    def values(self, rounds):
        """The ratio or figure in each round; rounds: a list of {contender: figures}."""
        return [divide(figures[self.of][self.figure],
                       sum(figures[name][self.figure] for name in self.against))
                if self.against else figures[self.of][self.figure] for figures in rounds]

    def judge(self, rounds):
        """What the report says of it, with "reached"."""
        values = self.values(rounds)
        value = self.pick(values)
        reached = ((self.at_least is None or value >= self.at_least)
                   and (self.at_most is None or value <= self.at_most))
        return {"text": self.text(), "bound": self.bound(), "measured": self.shown(value),
                "min": self.shown(min(values)), "max": self.shown(max(values)), "value": value,
                "reached": reached, "missed_by": "" if reached else self.missed_by(value)}

    def missed_by(self, value):
        """How near a value that is not enough, or too much, came."""
        if self.at_least is not None:
            return f"{divide(100 * value, self.at_least):.1f} % of what is wanted"
        return f"{divide(100 * value, self.at_most) - 100:.1f} % above what is wanted"


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
    "http_us": ("of it, HTTP threads", "µs", 2),
    "raft_us": ("of it, raft loops", "µs", 2),
    "writer_us": ("of it, writers to the disk", "µs", 2),
    "load_us": ("the load's own CPU time per request", "µs", 2),
    "others": ("of the machine, used by others", "%", 0),
    "idle": ("of the machine, idle", "%", 0),
    "p50": ("latency, median", "µs", 0),
    "p99": ("latency, p99", "µs", 0),
    "p99.9": ("latency, p99.9", "µs", 0),
    "p99.99": ("latency, p99.99", "µs", 1),
    "max": ("latency, longest", "µs", 0),
    "next_ns": ("CPU time of a next()", "ns", 1),
    "instructions": ("instructions per request, one at once", "", 0),
    "instructions_32": ("instructions per request, 32 at once", "", 0),
    "next_grant_ms": ("from SIGKILL of the leader to the next grant", "ms", 0),
    "stop_gap_ms": ("longest wait for a grant while the leader stops", "ms", 1),
    "goes_on_s": ("ids without a majority, for", "s", 1),
    "loop_gap_ms": ("longest wait for the raft loop", "ms", 1),
    "bytes_a_tag": ("resident memory a tag", "bytes", 0),
    "ready_s": ("from the start to ready", "s", 2),
    "first_id_s": ("from the start to the first id", "s", 2),
    "memory_mib": ("resident memory of a node", "MiB", 1),
    "handshake_us": ("CPU time per full handshake", "µs", 0),
    "connection_kib": ("resident memory of an idle connection", "KiB", 1),
    "connection_bytes": ("resident memory of an idle connection", "bytes", 0),
    "claim_ns": ("CPU time of a claim", "ns", 1),
    "core_percent": ("of a core, used by a node", "%", 2),
}


def medians(rounds, name):
    """The median of each figure of a contender over the rounds."""
    return {figure: statistics.median(figures[name][figure] for figures in rounds)
            for figure in rounds[0][name]}


def run_rounds(contenders, rounds, seconds, say, told=("ids_rate", "cpu_us", "others"),
               there_and_back=False):
    """Measure in turn, or every other round in the opposite order; a list, one {contender: figures}
    a round. told: what is said of each."""
    for contender in contenders:
        if contender.warm_up_s:
            contender.measure(contender.warm_up_s)
    results = []
    for number in range(1, rounds + 1):
        figures = {}
        back = there_and_back and number % 2 == 0
        for contender in reversed(contenders) if back else contenders:
            figures[contender.name] = contender.measure(seconds)
        results.append(figures)
        say(f"round {number} of {rounds}: " + ", ".join(
            f"{name} {in_words(one, told)}" for name, one in figures.items()))
    return results


def in_words(figures, names):
    """Some figures of one contender in a few words."""
    return " ".join(f"{figures[name]:,.{FIGURES[name][2]}f}{FIGURES[name][1]}" for name in names
                    if name in figures)
