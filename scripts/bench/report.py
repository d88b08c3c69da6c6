"""The report: what each case measured, its targets and whether they are reached, a plot each.

The results of a case are kept in CASE.json beside the report, so that the report shows all cases
that were ever run in this build directory, each with its date and commit, and not only the last.
"""

import json
import os
import platform
import shlex
import statistics
import subprocess
import time

import svg
from measure import FIGURES, medians
from processes import ROOT

FORMAT = 3  # of the results that are kept; others are passed over
TABLE_FIGURES = ("ids_rate", "cpu_us", "user_us", "system_us", "load_us", "p50", "p99", "p99.9",
                 "others")


def result_of(case, targets, contenders, rounds, seconds, file_system):
    """What is kept of a case that was run. targets: the case's own, or others in their place."""
    judged = [target.judge(rounds) for target in targets]
    missed = targets is case.targets and not all(target["reached"] for target in judged)
    return {
        "format": FORMAT,
        "case": case.name,
        "title": case.title,
        "text": " ".join(case.text.split()),
        "charts": list(case.charts),
        "columns": list(getattr(case, "columns", TABLE_FIGURES)),
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "machine": machine(file_system),
        "seconds": seconds,
        "contenders": [{
            "name": one.name,
            "label": one.label,
            "command": shown(one.command),
            "servers": [[server.name, server.version(), server.settings] for server in one.servers],
        } for one in contenders],
        "rounds": rounds,
        "targets": judged,
        "in_the_way": case.in_the_way({one.name: medians(rounds, one.name) for one in contenders})
                      if missed and hasattr(case, "in_the_way") else [],
    }


def failure_of(case, error):
    """What is kept of a case that could not be run, or whose replies were wrong."""
    return {"format": FORMAT, "case": case.name, "title": case.title, "error": str(error),
            "date": time.strftime("%Y-%m-%d %H:%M"), "commit": commit()}


def commit():
    """This tree's commit, with a mark if it was changed since."""
    try:
        run = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"],
                             cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True,
                             text=True, timeout=20, check=False)
    except OSError:
        return "unknown"
    return run.stdout.strip() or "unknown"


def machine(file_system):
    """The machine in one line."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    priority = os.sched_getscheduler(0) == os.SCHED_RR
    return (f"{os.cpu_count()} processors ({model}), Linux {platform.release()}, "
            f"data on {file_system}" + (", real-time priority" if priority else ""))


def shown(command):
    """A command as it may be typed in the repository's root, long arguments cut; or what was done,
    in words."""
    if isinstance(command, str):
        return command
    words = [os.path.basename(command[0]),
             *(word.replace(ROOT + os.sep, "") for word in command[1:])]
    return " ".join(shlex.quote(word if len(word) <= 120 else word[:117] + "...") for word in words)


def amount(value, figure):
    """A figure with its digits."""
    return f"{value:,.{FIGURES[figure][2]}f}"


def verdict(target):
    """Reached or not, in the report; nothing for what has no bound."""
    if not target["bound"]:
        return ""
    return "**reached**" if target["reached"] else "**not reached**"


def target_lines(result):
    """The table of a case's targets: the line that says reached or not."""
    lines = ["| target | bound | measured | rounds | |", "|---|---|---|---|---|"]
    for target in result["targets"]:
        lines.append(f"| {target['text']} | {target['bound']} | {target['measured']} | "
                     f"{target['min']} to {target['max']} | {verdict(target)} |")
    return lines


def missed_lines(result):
    """Of targets that were not reached: how near, and what the profile shows stands in the way."""
    missed = [target for target in result["targets"] if not target["reached"]]
    if not missed:
        return []
    lines = ["", "**How near:** " + "; ".join(
        f"{target['text']}: {target['measured']} where {target['bound']} is wanted, "
        f"{target['missed_by']}" for target in missed) + "."]
    for number, text in enumerate(result["in_the_way"]):
        lines += ["", ("**What stands in the way:** " if number == 0 else "") + text]
    return lines


def figure_lines(result):
    """The table of the medians, one line a contender."""
    columns = result["columns"]
    heads = [FIGURES[name][0] + (f" ({FIGURES[name][1]})" if FIGURES[name][1] else "")
             for name in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for contender in result["contenders"]:
        figures = medians(result["rounds"], contender["name"])
        cells = [amount(figures[name], name) if name in figures else "" for name in columns]
        lines.append(f"| {contender['label']} | " + " | ".join(cells) + " |")
    return lines


def contender_lines(result):
    lines = []
    for contender in result["contenders"]:
        servers = "; ".join(f"{name}: {version}; {settings}"
                            for name, version, settings in contender["servers"])
        line = f"- {contender['label']} ({servers}): `{contender['command']}`"
        lines.append(line.replace(ROOT + os.sep, ""))
    return lines


def section(result):
    """The lines of one case."""
    head = [f"## {result['case']}: {result['title']}", ""]
    if "error" in result:
        return [*head, "**Not measured:**", "", "```", result["error"], "```", "",
                f"{result['date']}, commit {result['commit']}", ""]
    return [
        *head,
        result["text"], "",
        *(target_lines(result) if result["targets"] else ["There is no target."]),
        *missed_lines(result), "",
        f"![{result['case']}]({result['case']}.svg)", "",
        f"Medians of {len(result['rounds'])} rounds of {result['seconds']:g} s, each contender in "
        "turn. CPU time is that of all processes of the servers; the last column is what other "
        "processes took of the machine meanwhile, and makes the rates of all smaller.", "",
        *figure_lines(result), "",
        *contender_lines(result), "",
        f"{result['date']}, commit {result['commit']}; {result['machine']}; "
        f"`make bench CASE={result['case']}`", "",
    ]


def chart(result):
    """The plot of a case."""
    panels = []
    for name in result["charts"]:
        title, unit, digits = FIGURES[name]
        rows = []
        for contender in result["contenders"]:
            values = [figures[contender["name"]][name] for figures in result["rounds"]
                      if name in figures[contender["name"]]]
            if values:
                rows.append((contender["label"], statistics.median(values), values))
        panels.append((title, unit, digits, rows))
    return svg.plot(result["title"], panels)


def write(path, text):
    """Write a file as a whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".part", path)


def keep(folder, result):
    """Keep the result of a case, with its plot."""
    write(os.path.join(folder, f"{result['case']}.json"), json.dumps(result, indent=1) + "\n")
    if "error" not in result:
        write(os.path.join(folder, f"{result['case']}.svg"), chart(result))


def kept(folder, names):
    """The results that are kept, in the order of the names."""
    results = []
    for name in names:
        path = os.path.join(folder, f"{name}.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            if result.get("format") == FORMAT:
                results.append(result)
    return results


def summary_lines(results):
    """One table of all targets."""
    lines = ["| case | target | bound | measured | |", "|---|---|---|---|---|"]
    for result in results:
        if "error" in result:
            lines.append(f"| [{result['case']}](#{result['case']}) | {result['title']} | | | "
                         "**not measured** |")
        for target in result.get("targets", []):
            told = verdict(target).replace("**reached**", "reached")
            lines.append(f"| [{result['case']}](#{result['case']}) | {target['text']} | "
                         f"{target['bound']} | {target['measured']} | {told} |")
    return lines


def write_report(folder, names, against="others"):
    """report.md of all that is kept; returns its path."""
    results = kept(folder, names)
    lines = [
        f"# leafd against {against}", "",
        "Written by `make bench`. Every reply of every load was verified: its status, its framing, "
        "and that no id of a run came twice. The machine is not alone and absolute figures mean "
        "little on it: what counts are the ratios within a round.", "",
        *summary_lines(results), "",
    ]
    for result in results:
        lines += [f"<a id=\"{result['case']}\"></a>", "", *section(result)]
    path = os.path.join(folder, "report.md")
    write(path, "\n".join(lines))
    return path


def print_table(result, say):
    """The ratios on the terminal."""
    for target in result["targets"]:
        told = "reached" if target["reached"] else "NOT reached"
        say(f"  {target['text']}: {target['measured']} ({target['min']} to {target['max']})"
            + (f", target {target['bound']}: {told}" if target["bound"] else ""))
