"""The RESP listener asked by Redis's clients of other languages, as they are out of the box:
redigo, ioredis and node-redis; and large ids over both protocols in JavaScript and others. What is
not installed is skipped: `make resp-test` installs it."""

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
    assert lines[3].lower().startswith("error err bad_request: wrong number of words: set "), run
    assert len(lines) == 4, run


LARGE = 2**62 + 1  # JavaScript's numbers have no such one


def run_node(file, module, *arguments):
    if shutil.which("node") is None or not os.path.isdir(os.path.join(MODULES, module)):
        pytest.skip(f"node or its module {module} is not installed")
    run = subprocess.run(["node", os.path.join(CLIENTS, file), *arguments], capture_output=True,
                         text=True, timeout=30, check=False,
                         env={**os.environ, "NODE_PATH": MODULES})
    assert run.returncode == 0, run
    return run.stdout.split()


@pytest.mark.bound(120)
def test_large_ids_in_javascript(make_cluster, tag):
    """As docs/clients.md says it, no digit is lost."""
    cluster = open_resp(make_cluster(1, FAST, start=False)).start()
    cluster.create_tag(tag, step=1000, max_id=LARGE, force=True)
    node = cluster.nodes[0]
    wanted = LARGE
    for client in ("axios", "fetch", "openapi-fetch"):
        module = client if client != "fetch" else "axios"
        assert run_node("http_node.js", module, client, node.http_address, tag) == [
            str(wanted), str(wanted + 1)], client
        wanted += 2
    port = str(node.resp_port)
    for client in ("ioredis", "redis", "redis5"):
        assert run_node("resp_strings.js", client, client, port, tag) == [
            str(wanted), str(wanted + 1)], client
        wanted += 2


@pytest.mark.bound(60)
@pytest.mark.parametrize("client", ["jq", "lua"])
def test_what_else_rounds(tmp_path, client):
    """What docs/clients.md warns of is so, and the strings of format=json are whole."""
    document = f'{{"ranges":[{{"first":"{LARGE}"}}],"number":{LARGE}}}'
    if client == "jq":
        command = ["jq", "-r", ".ranges[0].first"]
    else:
        program = tmp_path / "first.lua"
        program.write_text('print((io.read("*a"):match(\'"first":"(%d+)"\')))', encoding="ascii")
        command = ["luajit", str(program)]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    run = subprocess.run(command, input=document, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(LARGE)
