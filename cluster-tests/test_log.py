"""The log as JSON, its settings changed while the node runs, and readers that stand still."""

import fcntl
import json
import os
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


def drain(reader):
    """What is in a pipe by now."""
    text = b""
    while True:
        try:
            text += os.read(reader, 1 << 16)
        except BlockingIOError:
            return text.decode()


def test_a_reader_of_the_log_that_stands_still(make_cluster, tag):
    """A node waits for no collector of its log: it serves, says later what was lost, and stops."""
    node, = make_cluster(1, start=False).nodes
    fifo = os.path.join(node.directory, "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    node.prefix = ["sh", "-c", 'fifo=$1; shift; exec "$@" 2>"$fifo"', "sh", fifo]
    node.start().wait_ready()
    for round_ in range(2):
        for number in range(40):
            answer = node.http("PUT", f"/api/tags/{tag}{round_}.{number}", {"step": 10})
            assert answer.status == 201, answer
        assert drain(reader)
        assert node.http("PUT", f"/api/tags/{tag}{round_}", {"step": 10}).status == 201
        lines = []

        def is_told():
            lines.append(drain(reader))
            return re.search("lines_lost_before_this=[1-9]", "".join(lines))

        wait_until(is_told, 30, "what was lost is told")
    for number in range(40):
        assert node.get(f"/api/segment/get/{tag}0.{number}").status == 200
        assert node.http("DELETE", f"/api/tags/{tag}0.{number}").status == 204
    node.stop()
    os.close(reader)
