"""What nodes measure, as Prometheus sees it: promtool finds nothing to say against it, the rules
and the dashboard use nothing that is not there, and the figures are those of what was done."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

import leafctl
from client import once
from ports import take_port
from wait import wait_until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
FILES = os.path.join(ROOT, "scripts", "compose")
sys.path.insert(0, FILES)

import monitoring  # noqa: E402

# As Prometheus 2.42 asks.
PROMETHEUS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
              "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
LINE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (-?[0-9.e+-]+|\+Inf|NaN)$')


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if not found:
        pytest.skip("no promtool: scripts/setup test")
    return found


class Report:
    """What monitoring.py wants to run its tools by."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    @staticmethod
    def run(argv, limit_s, **more):
        done = subprocess.run(argv, timeout=limit_s, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        assert done.returncode == 0, done.stdout
        return done.stdout


def samples(text):
    """{name with its labels: value}, each once."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.match(line).groups()
            key = f"{name}{{{labels}}}" if labels else name
            assert key not in found, f"{key} twice"
            found[key] = float(value)
    return found


def metrics(node):
    return samples(node.get("/metrics").text)


def use(cluster, tag):
    """Ids of every kind."""
    cluster.create_tag(tag)
    cluster.create_tag(f"{tag}-strict", mode="strict")
    for node in cluster.nodes:
        assert node.get(f"/api/segment/get/{tag}?count=5").status == 200
        assert node.get(f"/api/segment/get/{tag}-strict").status == 200
        assert node.get("/readyz").status == 200


@pytest.mark.bound(120)
def test_promtool_and_the_files_for_prometheus(make_cluster, tag, promtool, tmp_path):
    cluster = make_cluster()
    use(cluster, tag)
    name = f'leafd_busiest_tag_ids_per_second{{tag="{tag}"}}'

    def busy():
        """All nodes' metrics, once all show the tag's rate, which a node forgets after a while."""
        for node in cluster.nodes:
            assert node.get(f"/api/segment/get/{tag}?count=5").status == 200
        texts = [node.get("/metrics").text for node in cluster.nodes]
        return texts if all(name in samples(text) for text in texts) else None

    texts = wait_until(busy, 10, "the tag is busy")
    for text in texts:
        done = subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert (done.returncode, done.stdout) == (0, "")
        assert len(text.splitlines()) < 1500
    report = Report()
    os.makedirs(tmp_path / "prometheus")
    monitoring.check_prometheus(report, FILES, str(tmp_path))
    monitoring.check_expressions(report, FILES, str(tmp_path))
    monitoring.check_dashboard(FILES, os.path.join(ROOT, "docs"))
    assert monitoring.check_metrics(FILES, "".join(texts)) > 30


MODES = {"trend": {"step": 1000}, "small": {"step": 1, "max_step": 30},
         "strict": {"mode": "strict"}, "mono": {"mode": "monotonic"},
         "shaped": {"shape": "A-{id:12}"},
         "dated": {"mode": "strict", "shape": "INV-{year}-{id:9}"}}
TAKEN_AT_ONCE = 20


def rates(cluster, tag):
    """What nodes hand out a second, by mode: the sums of what each node says."""
    page = cluster.nodes[0].get_json(f"/api/cluster/segments?prefix={tag}.")
    assert all(node["answered"] for node in page["nodes"]), page
    return {mode: sum(segment["rate_per_s"] for node in page["nodes"]
                      for segment in node["segments"] if segment["tag"] == f"{tag}.{mode}")
            for mode in MODES}


def metered(cluster, tag):
    """The same, by the metrics."""
    found = [metrics(node) for node in cluster.nodes]
    return {mode: sum(of.get(f'leafd_busiest_tag_ids_per_second{{tag="{tag}.{mode}"}}', 0)
                      for of in found) for mode in MODES}


@pytest.mark.bound(180)
def test_one_rate_of_every_mode(shared, tag, tmp_path):
    """As many as were taken, of every mode, wherever one looks; and it falls to 0, also where no
    segment comes any more."""
    for mode, fields in MODES.items():
        shared.create_tag(f"{tag}.{mode}", **fields)
    times = []
    begun = time.monotonic()
    while time.monotonic() < begun + 20:
        for node in shared.nodes:
            for mode in MODES:
                answer = node.get(f"/api/segment/get/{tag}.{mode}?count={TAKEN_AT_ONCE}")
                assert answer.status == 200, answer
        times.append(time.monotonic())
        time.sleep(0.1)  # the pace, of which the rate is measured
    seen, by_metrics = rates(shared, tag), metered(shared, tag)
    top = leafctl.of(shared, tmp_path)("top", f"{tag}.", "--json").json
    now = time.monotonic()
    taken = sum(at > now - 10 for at in times) * len(shared.nodes) * TAKEN_AT_ONCE / 10
    for mode in MODES:
        assert taken / 2 < seen[mode] < taken * 2, (mode, taken, seen)
        assert seen[mode] / 2 < by_metrics[mode] < seen[mode] * 2, (mode, seen, by_metrics)
    listed = {row["tag"]: row for row in top["tags"]}
    for mode in MODES:
        row = listed[f"{tag}.{mode}"]
        assert seen[mode] / 2 < row["rate_per_s"] < seen[mode] * 2, (row, seen)
        assert (row["lasts_s"] is None) == (mode in ("strict", "mono", "dated")), row
    wait_until(lambda: not any(rates(shared, tag).values()), 90, "nobody asks")
    assert sum(metered(shared, tag).values()) < len(MODES) * len(shared.nodes)


def test_both_formats_say_the_same(shared):
    node = shared.nodes[0]
    plain = node.get("/metrics")
    opened = node.http("GET", "/metrics", headers={"Accept": PROMETHEUS})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4"
    assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert opened.text.endswith("# EOF\n") and "# EOF" not in plain.text
    names = set(re.findall(r"^# TYPE (\S+) counter$", opened.text, re.M))
    assert names and not [name for name in names if name.endswith("_total")]
    assert set(samples(opened.text.replace("# EOF\n", ""))) == set(samples(plain.text))


def traced(node, tag, trace):
    header = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    assert node.http("GET", f"/api/segment/get/{tag}", headers=header).status == 200


EXEMPLAR = re.compile(
    r'^leafd_http_request_duration_seconds_bucket{class="(\w+)",status="2xx",le="([0-9.]+|\+Inf)"} '
    r'\d+ # {trace_id="([0-9a-f]{32})"} (\d+\.\d{6}) (\d+\.\d{3})$', re.M)


def exemplars(node):
    text = node.http("GET", "/metrics", headers={"Accept": PROMETHEUS}).text
    return {trace: (kind, float("inf") if bound == "+Inf" else float(bound), float(took),
                    float(at)) for kind, bound, trace, took, at in EXEMPLAR.findall(text)}


def test_a_trace_stands_for_those_that_waited(make_cluster, tag):
    """Strict ids wait for the log, and each bucket shows a trace; ids from memory show none."""
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    cluster.create_tag(tag)
    cluster.create_tag(f"{tag}-strict", mode="strict")
    assert node.get(f"/api/segment/get/{tag}").status == 200  # and now there are some in memory
    waited, quick = "4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000001"
    traced(node, f"{tag}-strict", waited)
    traced(node, tag, quick)
    wait_until(lambda: waited in exemplars(node), 10, "it is counted")
    found = exemplars(node)
    assert quick not in found
    kind, bound, took, at = found[waited]
    assert kind == "strict" and 0 < took <= bound and abs(at - time.time()) < 60
    # A traceparent that breaks the rules is none, and there is at most one of a bucket.
    for number in range(50):
        traced(node, f"{tag}-strict", f"{number + 16:032x}")
        traced(node, f"{tag}-strict", "4bf92f3577b34da6a3ce929d0e0e473Z")
    found = exemplars(node)
    assert "4bf92f3577b34da6a3ce929d0e0e473Z" not in found
    assert 0 < len(found) <= 20 and len({bound for _, bound, _, _ in found.values()}) == len(found)
    assert "trace_id" not in node.get("/metrics").text


@pytest.mark.bound(120)
def test_prometheus_takes_the_traces(make_cluster, tag, tmp_path):
    program = shutil.which("prometheus")
    if not program:
        pytest.skip("no prometheus: scripts/setup test")
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    cluster.create_tag(tag, mode="strict")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced(node, tag, trace)
    (tmp_path / "prometheus.yml").write_text(
        "scrape_configs:\n- job_name: leafd\n  scrape_interval: 1s\n"
        f"  static_configs:\n  - targets: ['{node.http_address}']\n")
    port = take_port()
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [program, f"--config.file={tmp_path}/prometheus.yml",
             f"--storage.tsdb.path={tmp_path}/tsdb", f"--web.listen-address=127.0.0.1:{port}",
             "--enable-feature=exemplar-storage"], stdout=log, stderr=log)
    query = ("/api/v1/query_exemplars?query=leafd_http_request_duration_seconds_bucket"
             f"&start={time.time() - 600:.0f}&end={time.time() + 600:.0f}")

    def traces():
        answer = once(("127.0.0.1", port), "GET", query)
        assert answer.status == 200, answer
        return [exemplar["labels"]["trace_id"] for series in answer.json()["data"]
                for exemplar in series["exemplars"]]

    try:
        assert wait_until(traces, 60, "an exemplar") == [trace]
    finally:
        process.terminate()
        process.wait(30)


def wait_counted(node, least):
    """All metrics, once these have grown so far: an answer may be read before it is counted."""
    wait_until(lambda: (new := metrics(node)) and all(
        new[name] >= value for name, value in least.items()), 10, f"{least} at {node}")
    return metrics(node)


def test_figures_are_of_what_was_done(make_cluster, tag):
    cluster = make_cluster()
    before = [metrics(node) for node in cluster.nodes]
    use(cluster, tag)
    leader = cluster.leader()
    took = 'leafd_http_request_duration_seconds_count{class="%s",status="2xx"}'
    segment, strict = took % "segment", took % "strict"
    probes = 'leafd_http_probes_total{status="2xx"}'
    for node, old in zip(cluster.nodes, before):
        new = wait_counted(node, {segment: old[segment] + 1, strict: old[strict] + 1,
                                  probes: old[probes] + 2})
        assert new[segment] - old[segment] == 1
        assert new[strict] - old[strict] == 1
        requests = sum(value for name, value in new.items()
                       if name.startswith("leafd_http_request_duration_seconds_count"))
        assert requests == sum(value for name, value in new.items()
                               if name.startswith("leafd_http_requests_total"))
        leads = node is leader
        wait_until(lambda node=node: metrics(node)["leafd_leader_id"] == leader.id, 10,
                   "the leader is known")
        new = metrics(node)
        assert new['leafd_role{role="leader"}'] == leads
        assert sum(value for name, value in new.items() if name.startswith("leafd_role{")) == 1
        assert ('leafd_member_lag_entries{member="1"}' in new) == leads
        assert new["leafd_commit_duration_seconds_count"] == new[
            "leafd_flush_duration_seconds_count"] > 0
        assert new["leafd_commit_duration_seconds_sum"] >= new["leafd_flush_duration_seconds_sum"]
        assert 0 < new["leafd_map_used_bytes"] < new["leafd_map_bytes"]
        assert 0 < new["leafd_disk_free_bytes"] <= new["leafd_disk_bytes"]
        assert 0 < new["process_open_fds"] < new["process_max_fds"]
        assert 1e6 < new["process_resident_memory_bytes"] < 1e9
        assert {'leafd_thread_cpu_seconds_total{thread="http-0"}',
                'leafd_thread_cpu_seconds_total{thread="leafd-writer"}'} <= set(new)


def test_a_node_that_is_gone_shows_in_the_others_figures(make_cluster):
    cluster = make_cluster()
    leader = cluster.leader()
    other = next(node for node in cluster.nodes if node is not leader)
    reachable = f'leafd_member_reachable{{member="{other.id}"}}'
    rtt = f'leafd_link_rtt_seconds{{member="{other.id}"}}'
    wait_until(lambda: metrics(leader)[reachable] == 1 and rtt in metrics(leader), 10, "a link")
    assert 0 < metrics(leader)[rtt] < 5
    other.kill9()
    wait_until(lambda: metrics(leader)[reachable] == 0, 10, "the link is gone")
    wait_until(lambda: rtt not in metrics(leader), 20, "nothing is known of the way")
    leader.kill9()
    rest = next(node for node in cluster.nodes if node not in (leader, other))
    wait_until(lambda: metrics(rest)["leafd_leader_known"] == 0, 10, "no leader")
    other.start()

    def won():
        new = metrics(cluster.wait_leader(among=[rest, other]))
        return (new['leafd_role{role="leader"}'] == 1
                and new["leafd_elections_total"] >= new["leafd_leaderships_total"] > 0)

    wait_until(won, 10, "one leads that won an election")


def test_the_last_backup_shows(shared):
    node = shared.nodes[1]
    name = "leafd_backup_last_success_time_seconds"
    before = time.time()
    answer = node.get("/api/backup")
    assert answer.status == 200 and answer.body
    # Other tests have taken some of this node, too; it tells once a second.
    wait_until(lambda: metrics(node).get(name, 0) > before - 1, 10, "a backup was taken")
    assert metrics(node)[name] < time.time() + 1


def test_readiness_is_no_error(make_cluster):
    """A node that is not ready answers 503 to probes: the requests are not counted as failed."""
    cluster = make_cluster(start=False)
    node = cluster.nodes[0]
    node.start()
    wait_until(lambda: node.get("/readyz").status == 503, 10, "it waits for the others")
    new = wait_counted(node, {'leafd_http_probes_total{status="5xx"}': 1})
    assert new['leafd_http_requests_total{status="5xx"}'] == 0
    for other in cluster.nodes[1:]:
        other.start()
    cluster.wait_ready()


def test_the_dashboard_is_json_of_panels():
    with open(os.path.join(FILES, "grafana-leafd.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        assert panel["title"] and panel["targets"], panel["id"]
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= 24, panel["title"]
