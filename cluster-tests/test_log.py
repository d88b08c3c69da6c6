"""The log as JSON, and its settings changed while the node runs."""

import json
import re
import signal

from wait import wait_until


def reload(node, **settings):
    """Change lines of the configuration file, and have the node read them."""
    with open(node.settings["config"], "w", encoding="ascii") as file:
        file.write("".join(f"{key} = {value}\n" for key, value in settings.items()))
    start = len(node.log())
    node.process.send_signal(signal.SIGHUP)
    node.wait_log(r"reloaded", start=start)


def test_json_lines_and_a_level_that_changes(make_cluster, tmp_path):
    cluster = make_cluster(1, start=False)
    node, = cluster.nodes
    node.settings["config"] = str(tmp_path / "leafd.conf")
    (tmp_path / "leafd.conf").write_text("log.format = json\n")
    cluster.start()
    hostile = 'a"b\\c\u202e} level=warn'
    for number in range(3):
        assert node.http("PUT", f"/api/tags/t{number}", {"description": hostile}).status == 201
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert len(lines) > 10
    for line in lines:
        assert set(line) >= {"time", "level", "node", "at", "msg"} and "rest" not in line, line
    assert [line["term"] for line in lines if line["msg"] == "this node leads"]
    start = len(node.log())
    reload(node, **{"log.format": "logfmt", "log.level": "debug"})

    def is_told():
        """The line of the reload comes a moment before the other format."""
        assert node.get("/livez").status == 200
        return re.search(r'level=debug .*msg="connection closed"', node.log()[start:])

    wait_until(is_told, 10, "a line that was not written before")
    reload(node, **{"log.format": "json", "log.level": "warn"})
    start = len(node.log())
    assert node.http("PUT", "/api/tags/quiet", {"step": 1}).status == 201
    assert node.log()[start:] == ""
