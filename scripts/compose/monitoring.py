"""monitoring.py - what can be said of the Prometheus and Grafana files without running either.

promtool (of Debian's package prometheus, unpacked and not installed) checks the configuration and
the rules and runs the rules' own tests. Every metric that a rule or the dashboard names must be one
that leafd documents and, asked of a live node, one that it has.
"""

import glob
import json
import os
import re
import shutil
import subprocess

from checking import CommandError

PROMTOOL_LIMIT_S = 300
DOWNLOAD_LIMIT_S = 180
RULES_TESTS = ("rules-test.yml", "rules-test-days.yml")

METRIC = re.compile(r"\bleafd_[a-z0-9_]+")
PART = re.compile(r"_(bucket|sum|count)$")  # of a histogram
# What a node has only with a certificate, or once there was a backup.
SELDOM = {"leafd_certificate_end_timestamp_seconds", "leafd_backup_last_success_time_seconds"}
RECORD = re.compile(r"\bleafd:[a-z0-9_:]+")


def promtool(report, directory):
    """The path of promtool."""
    found = shutil.which("promtool")
    path = os.path.join(directory, "usr", "bin", "promtool")
    if found or os.path.exists(path):
        return found or path
    for package in glob.glob(os.path.join(directory, "prometheus_*.deb")):
        os.remove(package)
    try:
        report.run(["apt-get", "-q", "download", "prometheus"], DOWNLOAD_LIMIT_S, cwd=directory)
    except CommandError:
        # Without lists of packages, as in a fresh system.
        report.run(["apt-get", "-q", "update"], DOWNLOAD_LIMIT_S)
        report.run(["apt-get", "-q", "download", "prometheus"], DOWNLOAD_LIMIT_S, cwd=directory)
    package, = glob.glob(os.path.join(directory, "prometheus_*.deb"))
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package],
                          stdout=subprocess.PIPE) as archive:
        report.run(["tar", "-x", "-C", directory, "./usr/bin/promtool"], PROMTOOL_LIMIT_S,
                   stdin=archive.stdout)
    os.remove(package)
    return path


def check_prometheus(report, files, directory):
    """Configuration, targets and rules are what Prometheus takes, and the alerts' tests pass."""
    tool = promtool(report, directory)
    work = os.path.join(directory, "prometheus")
    os.makedirs(work, exist_ok=True)
    for name in ("prometheus.yml", "rules.yml", *RULES_TESTS):
        shutil.copy(os.path.join(files, name), work)
    for nodes in (3, 5):
        targets = os.path.join(files, f"targets-{nodes}.json")
        with open(targets, encoding="utf-8") as file:
            found = [name for group in json.load(file) for name in group["targets"]]
        assert found == [f"leafd{number}:8080" for number in range(1, nodes + 1)], targets
        shutil.copy(targets, os.path.join(work, "targets.json"))
        said = report.run([tool, "check", "config", "prometheus.yml"], PROMTOOL_LIMIT_S, cwd=work)
        assert "WARNING" not in said and "FAILED" not in said, said
    report.run([tool, "test", "rules", *RULES_TESTS], PROMTOOL_LIMIT_S, cwd=work)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def expressions(files):
    """All PromQL of the rules and the dashboard: [(where, text)]."""
    rules = read(files, "rules.yml")
    found = [("rules.yml", line) for line in rules.splitlines()
             if not line.lstrip().startswith("#")]
    dashboard = json.loads(read(files, "grafana-leafd.json"))
    for panel in dashboard["panels"]:
        assert panel["targets"], f"panel {panel['title']} shows nothing"
        found += [(f"panel {panel['title']}", target["expr"]) for target in panel["targets"]]
    found += [("variable", variable["definition"]) for variable in dashboard["templating"]["list"]
              if variable["type"] == "query"]
    return found


def check_expressions(report, files, directory):
    """Prometheus can read every expression of the dashboard: promtool takes them as rules."""
    dashboard = json.loads(read(files, "grafana-leafd.json"))
    exprs = [target["expr"].replace("$instance", ".*")
             for panel in dashboard["panels"] for target in panel["targets"]]
    path = os.path.join(directory, "prometheus", "dashboard.yml")
    rules = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
    report.run([promtool(report, directory), "check", "rules", path], PROMTOOL_LIMIT_S)
    report.note(f"{len(exprs)} expressions of the dashboard")


def metrics_used(files):
    """{metric: where it is used}."""
    return {name: where for where, text in expressions(files) for name in METRIC.findall(text)}


def check_dashboard(files, docs):
    """The dashboard is whole, and it and the rules use nothing that is not there."""
    dashboard = json.loads(read(files, "grafana-leafd.json"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) > 0, f"panels' ids: {ids}"
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(places) == len(set(places)), "two panels lie in one place"
    recorded = set(re.findall(r"record: (\S+)", read(files, "rules.yml")))
    for where, text in expressions(files):
        unknown = set(RECORD.findall(text)) - recorded
        assert not unknown, f"{where}: no rule records {unknown}"
    documented = set(METRIC.findall(read(docs, "http-api.md")))
    unknown = {name: where for name, where in metrics_used(files).items()
               if name not in documented and PART.sub("", name) not in documented}
    assert not unknown, f"used, but not in docs/http-api.md: {unknown}"


def check_metrics(files, text):
    """/metrics of live nodes that are in use, together, have all that the rules and the dashboard
    use; how many these are."""
    shown = set(re.findall(r"^(leafd_[a-z0-9_]+)[{ ]", text, re.M))
    used = metrics_used(files)
    missing = {name: where for name, where in used.items() if name not in shown | SELDOM}
    assert not missing, f"not in /metrics: {missing}"
    return len(used)
