"""What is handed on: the tarball, the files that an install makes, the list of what is in the
image. The Debian package and the image themselves: `make deb-test`, `make compose-test`."""

import hashlib
import json
import os
import re
import runpy
import subprocess
import sys

import pytest

from node import ROOT, leafd_path

COMPOSE = os.path.join(ROOT, "scripts", "compose")
sys.path.insert(0, COMPOSE)

import sbom  # noqa: E402

let_through = runpy.run_path(os.path.join(COMPOSE, "daemon"))["let_through"]

DPKG = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]


def test_the_nodes_of_compose():
    """Each has a zone of its own, and the address of RESP that it shows is the published one."""
    with open(os.path.join(ROOT, "docker-compose.yml"), encoding="utf-8") as file:
        nodes = dict(re.findall(r"^  leafd(\d):\n((?:    .*\n)+)", file.read(), re.MULTILINE))
    assert set(nodes) == set("12345")
    assert len({re.search(r"LEAFD_ZONE: (\w+)\n", text)[1] for text in nodes.values()}) == 5
    for number, text in nodes.items():
        resp = f"${{RESP{number}:-638{number}}}"
        assert f"LEAFD_RESP_LISTEN: 0.0.0.0:{resp}\n" in text
        assert f'"127.0.0.1:{resp}:{resp}"' in text


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def dist(directory, **env):
    """The bytes of a tarball made in a clone there, by somebody else's habits."""
    run("git", "clone", "-q", "--shared", ROOT, str(directory))
    run("make", "-s", "dist", cwd=directory, env={**os.environ, **env})
    name = next(name for name in os.listdir(directory / "build") if name.endswith(".tar.gz"))
    return (directory / "build" / name).read_bytes()


@pytest.mark.bound(180)
@pytest.mark.skipif(not os.path.exists(os.path.join(ROOT, ".git")), reason="no history")
def test_the_tarball_of_a_commit_is_the_same_everywhere(tmp_path):
    old = os.umask(0o077)
    try:
        one = dist(tmp_path / "one", TZ="Asia/Tokyo", LC_ALL="C", USER="somebody")
    finally:
        os.umask(old)
    os.makedirs(tmp_path / "else" / "where")
    habits = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "tar.umask",
              "GIT_CONFIG_VALUE_0": "user"}  # fmt: skip
    other = dist(tmp_path / "else" / "where" / "two", TZ="UTC", LC_ALL="C.UTF-8", **habits)
    assert hashlib.sha256(one).hexdigest() == hashlib.sha256(other).hexdigest()


def install(action, destination):
    env = {"PATH": os.environ["PATH"], "DESTDIR": str(destination), "prefix": "/usr",
           "sysconfdir": "/etc"}  # fmt: skip
    build = os.path.dirname(os.path.dirname(leafd_path()))
    return run("scripts/install-files", "--build", build, action, cwd=ROOT, env=env)


@pytest.mark.skipif(os.path.basename(os.path.dirname(leafd_path())) != "release",
                    reason="installed is a release")  # fmt: skip
def test_what_is_installed_is_uninstalled(tmp_path):
    install("install", tmp_path)
    made = {os.path.join(folder, name)[len(str(tmp_path)):]
            for folder, _, names in os.walk(tmp_path) for name in names}
    assert made == set(install("list", tmp_path).split())
    assert {"/usr/bin/leafd", "/usr/bin/leafctl", "/etc/leafd/leafd.conf.example",
            "/usr/lib/systemd/system/leafd.service"} <= made
    for unit in ("leafd.service", "leafd@.service"):
        text = (tmp_path / "usr/lib/systemd/system" / unit).read_text()
        assert "@" not in text.replace("leafd@NAME", "").replace("~@privileged @resources", "") \
            .replace("@system-service", ""), f"{unit}: a place that was not put in"
    env = {"LEAFD_NODE_ID": "1", "LEAFD_CLUSTER_MEMBERS": "1=127.0.0.1:7081"}
    said = run(leafd_path(), "--config", str(tmp_path / "etc/leafd/leafd.conf.example"),
               "--print-config", env=env)  # fmt: skip
    assert "data.dir = /var/lib/leafd/node " in said
    install("uninstall", tmp_path)
    assert not [name for _, _, names in os.walk(tmp_path) for name in names]


def exit_codes(text, pattern):
    return set(pattern.search(text).group(1).split())


def test_units_know_the_exit_codes_that_no_restart_mends():
    with open(os.path.join(ROOT, "packaging", "common.service.in"), encoding="utf-8") as file:
        unit = file.read()
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as file:
        page = file.read()
    pattern = re.compile(r"RestartPreventExitStatus=([0-9 ]+)")
    assert exit_codes(unit, pattern) == exit_codes(page, pattern)


def make_sbom(tmp_path, libraries):
    (tmp_path / "libraries").write_text("".join(f"{name}\n" for name in libraries))
    return run(os.path.join(ROOT, "scripts", "sbom"), "1.2.3", "abc", "0.22.1",
               str(tmp_path / "libraries"))  # fmt: skip


def test_the_list_of_what_is_in_the_image(tmp_path):
    installed = sbom.installed_of(run(*DPKG))
    text = make_sbom(tmp_path, ["libc6", "libuv1"])
    assert sbom.check(text, installed, ["libc6", "libuv1"]) == len(installed) + 2


def test_a_wrong_list_is_noticed(tmp_path):
    installed = sbom.installed_of(run(*DPKG))
    document = json.loads(make_sbom(tmp_path, ["libc6"]))
    wrong = [{**installed, "libc6": "1"}, {**installed, "more": "1"}]
    for other in wrong:
        with pytest.raises(AssertionError):
            sbom.check(json.dumps(document), other, ["libc6"])
    with pytest.raises(AssertionError):
        sbom.check(json.dumps(document), installed, ["libc6", "libuv1"])
    del document["packages"][0]["licenseDeclared"]
    with pytest.raises(AssertionError):
        sbom.check(json.dumps(document), installed, ["libc6"])


def firewall_calls(tmp_path, monkeypatch, forward, code=0):
    """What let_through() asks of an iptables that shows this chain, during its time and then."""
    calls = tmp_path / "calls"
    calls.write_text("")
    for kind, rules in (("nft", forward), ("legacy", "-P FORWARD ACCEPT")):
        program = tmp_path / f"iptables-{kind}"
        program.write_text(f'#!/bin/sh\nshift 2\n[ "$1" = -S ] && echo "{rules}" && exit\n'
                           f'echo {kind} "$@" >>{calls}\n[ "$1" != -C ] || exit {code}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with let_through("198.18.0.0/16"):
        during = calls.read_text().splitlines()
    return during, calls.read_text().splitlines()[len(during):]


def test_what_another_docker_left_in_the_firewall_drops_nothing(tmp_path, monkeypatch):
    rule = "FORWARD -s 198.18.0.0/16 -d 198.18.0.0/16 -j ACCEPT"
    left = "-P FORWARD DROP\n-A FORWARD -j DOCKER-USER"
    assert firewall_calls(tmp_path, monkeypatch, left, code=1) == (
        [f"nft -C {rule}", f"nft -I {rule}"], [f"nft -D {rule}"])
    # The rule of a run that was killed.
    assert firewall_calls(tmp_path, monkeypatch, f"{left}\n-A {rule}") == (
        [f"nft -C {rule}"], [f"nft -D {rule}"])
    assert firewall_calls(tmp_path, monkeypatch, "-P FORWARD ACCEPT") == ([], [])
