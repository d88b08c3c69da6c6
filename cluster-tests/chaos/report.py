"""The page: what was done when, what the clients got, how the nodes came back, and the verdict.

One file without anything from outside: report.html with report.css and report.js, what all pages
of leafd share (http/page/look.css, look.js), and the run's numbers put into it. The happy path:
write_report() returns the path of the page in the folder of all runs; the same page lies in the
run's own folder.
"""

import glob
import html
import json
import os

from chaos import history

HERE = os.path.dirname(os.path.abspath(__file__))
# What all pages of leafd have in common.
LOOK = os.path.join(HERE, "..", "..", "http", "page")
NS = 1_000_000_000
FAMILY_OF = {
    "kill": "process", "stop": "process", "stop_all": "process", "pause": "process",
    "stutter": "process", "cut": "links", "links": "links", "resets": "links",
    "slow_disk": "disk", "failing_disk": "disk", "full_disk": "disk", "low_disk": "disk",
    "power_cut": "disk", "damage": "data", "wipe": "data",
    "old_copy": "data", "clock": "clock", "strobe": "clock",
}  # fmt: skip


def seconds(run, time_ns):
    return round((time_ns - run.begin_ns) / NS, 3)


def bars(run):
    """Faults as bars: begin, end, nodes, words."""
    found = {}
    for event in run.events:
        if event["what"] == "begin":
            found[event["fault"]] = {
                "kind": event["kind"], "group": FAMILY_OF.get(event["kind"], "members"),
                "nodes": event["nodes"], "text": event["text"],
                "begin": seconds(run, event["begin"]), "end": seconds(run, run.end_ns),
            }  # fmt: skip
        elif event["what"] == "end" and event["fault"] in found:
            found[event["fault"]]["end"] = seconds(run, event["t"])
    return list(found.values())


def episodes(run, judge):
    """Episodes with what they did and how long each node took to settle."""
    found = {}
    for event in run.events:
        if event["what"] == "episode":
            found[event["number"]] = {
                "number": event["number"], "family": event["family"],
                "begin": seconds(run, event["t"]), "healed": None, "taken": {},
            }  # fmt: skip
        elif event["what"] == "healed" and event["number"] in found:
            found[event["number"]]["healed"] = seconds(run, event["t"])
    for number, node, taken in judge.recoveries:
        found[number]["taken"][node] = round(taken / NS, 3)
    return list(found.values())


def role_of(sample):
    if "state" not in sample:
        return "silent"
    if sample["state"] in ("leader", "follower") and sample["leader"] is not None:
        return sample["state"]
    return "leaderless"


def ribbons(run, node):
    """What a node said it was: [begin, end, role], and down where its process was gone."""
    spans = []
    for sample in run.samples:
        if sample["node"] != node:
            continue
        begin, end, role = seconds(run, sample["t"]), seconds(run, sample["end"]), role_of(sample)
        if spans and spans[-1][2] == role and begin - spans[-1][1] < 1.5:
            spans[-1][1] = end
        else:
            if spans and begin - spans[-1][1] < 1.5:
                spans[-1][1] = begin
            spans.append([begin, end, role])
    for begin, end in run.health.raw.get(("down", node), []):
        spans.append([seconds(run, begin), seconds(run, min(end, run.end_ns)), "down"])
    return spans


def memory(run, node):
    """[seconds, MiB] of a node, once a second at most."""
    found = []
    for sample in run.samples:
        if sample["node"] == node and "rss_kib" in sample:
            at = seconds(run, sample["t"])
            if not found or at - found[-1][0] >= 1:
                found.append([at, round(sample["rss_kib"] / 1024, 1)])
    return found


def lifetime(run, node):
    """From when until when a node was there: one may join, and one may go for good."""
    spans = run.health.raw.get(("down", node), [])
    joined = node not in run.health.members[min(1, len(run.health.members) - 1)][1]
    begin = spans[0][0] if spans and joined else run.begin_ns
    gone = spans and spans[-1][1] >= run.end_ns
    return begin, spans[-1][0] if gone else run.end_ns


def unwell(run, node):
    first, last = lifetime(run, node)
    return [
        [seconds(run, max(begin, first)), seconds(run, min(end, last))]
        for begin, end in run.health.unwell[node].pairs()
        if end > first and begin < last
    ]


def starved(run):
    return [[seconds(run, b), seconds(run, e)] for b, e in run.health.starved.pairs()]


def error_rows(judge):
    rows = [
        {"node": node, "kind": history.KIND_NAMES[kind], "code": code, "count": count}
        for (node, kind, code), count in judge.errors.items()
    ]
    return sorted(rows, key=lambda row: -row["count"])


def space_rows(judge):
    """What was compared in each id space."""
    rows = {}
    for space in judge.spaces.values():
        name = space.name.rstrip("0123456789") + "…" if "many" in space.name else space.name
        row = rows.setdefault(name, {"name": name, "kind": history.KIND_NAMES[space.kind],
                                     "ids": 0, "ranges": 0, "unseen": 0})  # fmt: skip
        row["ids"] += space.total()
        row["ranges"] += len(space.firsts)
        if space.kind != history.SNOWFLAKE:
            row["unseen"] += space.holes()
    return list(rows.values())


def other_runs(out, run):
    found = []
    for path in sorted(glob.glob(os.path.join(out, "*", "summary.json"))):
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        folder = os.path.basename(os.path.dirname(path))
        summary["page"] = f"{folder}/report.html"
        summary["here"] = folder == str(run.plan.seed)
        found.append(summary)
    return sorted(found, key=lambda summary: summary["at"])


def page_data(run, judge, summary, replay):
    nodes = run.health.nodes
    return {
        "summary": summary, "replay": replay, "settings": run.settings,
        "features": run.plan.features, "version": run.version,
        "length": seconds(run, run.end_ns), "slice": judge.series.slice_s,
        "findings": judge.findings, "bars": bars(run), "episodes": episodes(run, judge),
        "nodes": nodes, "series": judge.series.as_dict(nodes),
        "roles": {node: ribbons(run, node) for node in nodes},
        "unwell": {node: unwell(run, node) for node in nodes},
        "memory": {node: memory(run, node) for node in nodes},
        "errors": error_rows(judge), "spaces": space_rows(judge),
        "requests": {history.KIND_NAMES[kind]: n for kind, n in judge.requests.items()},
        "admin": judge.admin_counts, "starved": starved(run), "directory": run.directory,
        "runs": other_runs(run.options.out, run),
    }  # fmt: skip


def read_part(name, folder=HERE):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def render(data):
    # Nothing in the data may end the script that carries it.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    summary = data["summary"]
    found = summary["findings"]
    verdict = f"{found} finding{'s' * (found > 1)}" if found else "nothing found"
    title = f"leafd chaos, seed {summary['seed']}: {verdict}"
    page = read_part("report.html")
    for mark, part in (
        ("@TITLE@", html.escape(title)),
        ("@STYLE@", read_part("look.css", LOOK) + read_part("report.css")),
        ("@SCRIPT@", read_part("look.js", LOOK) + read_part("report.js")),
        ("@DATA@", text),
    ):
        page = page.replace(mark, part)
    return page


def write_report(run, judge, summary, replay):
    data = page_data(run, judge, summary, replay)
    top = os.path.join(os.path.abspath(run.options.out), "report.html")
    # The links to the other runs begin at the folder of all runs.
    for path, way in ((top, ""), (os.path.join(run.directory, "report.html"), "../")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(render({**data, "way": way}))
    return top
