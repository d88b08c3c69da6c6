"""The RESP door asked by Redis's clients of other languages, as they are out of the box: redigo,
ioredis and node-redis. One that is not installed is skipped: `make resp-test` installs them."""

import os
import shutil
import subprocess

import pytest

from cluster import FAST
from node import ROOT
from resp import open_resp

CLIENTS = os.path.join(ROOT, "cluster-tests", "clients")
REDIGO = "/usr/share/gocode/src/github.com/gomodule/redigo"
MODULES = os.environ.get("LEAFD_RESP_MODULES") or os.path.join(ROOT, "build", "resp",
                                                               "node_modules")


def redigo(directory):
    """The command of a program with redigo, which is built without a network."""
    if shutil.which("go") is None or not os.path.isdir(REDIGO):
        pytest.skip("golang-go or golang-github-gomodule-redigo-dev is not installed")
    shutil.copy(os.path.join(CLIENTS, "resp_redigo.go"), os.path.join(directory, "main.go"))
    with open(os.path.join(directory, "go.mod"), "w", encoding="ascii") as file:
        file.write("module resp\n\ngo 1.19\n\nrequire github.com/gomodule/redigo v1.8.3\n\n"
                   f"replace github.com/gomodule/redigo => {REDIGO}\n")
    env = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOSUMDB": "off",
           "GOCACHE": os.path.join(directory, "cache"), "GOTOOLCHAIN": "local"}
    program = os.path.join(directory, "resp")
    subprocess.run(["go", "build", "-o", program, "."], cwd=directory, check=True, env=env)
    return [program]


def node(module):
    """The command of a program with a module of npm."""
    if shutil.which("node") is None or not os.path.isdir(os.path.join(MODULES, module)):
        pytest.skip(f"node or its module {module} is not installed")
    return ["node", os.path.join(CLIENTS, "resp_node.js"), module]


@pytest.mark.bound(120)
@pytest.mark.parametrize("client", ["redigo", "ioredis", "redis"])
def test_a_client(make_cluster, tag, tmp_path, client):
    command = redigo(str(tmp_path)) if client == "redigo" else node(client)
    cluster = open_resp(make_cluster(1, FAST, start=False)).start()
    cluster.create_tag(tag, step=1000)
    run = subprocess.run([*command, str(cluster.nodes[0].resp_port), tag], capture_output=True,
                         text=True, timeout=30, check=False, env={**os.environ,
                                                                  "NODE_PATH": MODULES})
    lines = [line.replace(" <nil>", "") for line in run.stdout.splitlines()]
    assert run.returncode == 0, run
    assert lines[:3] == ["incr 1", "incrby 11", "pipeline 111"], run
    assert lines[3].lower().startswith('error err unknown_command: unknown command "set"'), run
    assert len(lines) == 4, run
