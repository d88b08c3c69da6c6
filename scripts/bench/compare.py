"""A build of leafd against another one, the base: `make bench CASE=ids BASE=/path/to/leafd`.

Each case is prepared twice, with servers of either binary, and none of the other servers is
started. Every contender is measured with its counterpart right after it, or, every other round,
right before it, so that whatever else the machine does falls on both; what counts is the median of
the rounds' ratios. Between two copies of one build it is 0.97 to 1.03 with PRIORITY=1 and ten
rounds; without priority, on a machine that others use, clusters differ by half.
"""

from measure import Target

CPU_AT_MOST = 1.03  # of the base's CPU time a request


def base_name(name):
    """What the counterpart of a contender is called."""
    return f"base {name}"


def contenders_of(case, bench):
    """Start the servers of a case; its contenders, with a base each beside its counterpart."""
    ours = case.prepare(bench)
    if bench.base is None:
        return ours
    theirs = case.prepare(bench.of_base())
    for one in theirs:
        one.name, one.label = base_name(one.name), f"base: {one.label}"
    return [one for pair in zip(ours, theirs) for one in pair]


def targets_of(case, bench, rounds):
    """The targets of a case: its own, as far as nobody else is in them, and then the ratios of the
    two builds. CPU time a request has a bound; what else the case's plot shows is told."""
    if bench.base is None:
        return case.targets
    names = rounds[0]  # {contender: figures}
    targets = [target for target in case.targets
               if target.of in names and set(target.against) <= set(names)]
    for name in (name for name in names if base_name(name) in names):
        for figure in dict.fromkeys(("cpu_us", *case.charts)):
            if names[name].get(figure):  # tail_kill has no CPU time: its processes come and go
                targets.append(Target(figure, name, base_name(name),
                                      at_most=CPU_AT_MOST if figure == "cpu_us" else None))
    return targets
