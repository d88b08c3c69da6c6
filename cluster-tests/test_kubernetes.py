"""The settings of kubernetes/base on real processes, each with what a pod gives it: a user of its
own, a volume of root's that a group may write to, secrets behind links, id and zone in the
environment.
(The objects themselves are judged by scripts/check-kubernetes.)"""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tempfile

import pytest

from cluster import Cluster
from node import Node
from test_membership import wait_voters
from wait import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONF = os.path.join(ROOT, "kubernetes", "base", "leafd.conf")
USER = 10001
# By ordinal: of pod 3 the machine has no label of a zone, of which the kubelet makes "".
ZONES = {1: "eu-central-1a", 2: "eu-central-1b", 3: ""}
AGAIN_EXIT = 75

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become the pods' user")


def mount_secrets(folder, files):
    """As the kubelet does it: `..data` is a link to a directory, and each file one through it."""
    data = os.path.join(folder, "..2026_11_23")
    os.makedirs(data)
    for name, text in files.items():
        path = os.path.join(data, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chown(path, 0, USER)
        os.chmod(path, 0o440)
        os.symlink(os.path.join("..data", name), os.path.join(folder, name))
    os.symlink("..2026_11_23", os.path.join(folder, "..data"))
    for path in (folder, data):
        os.chown(path, 0, USER)
        os.chmod(path, 0o2750)


class Pod(Node):
    """A node as a pod: its settings from the file, what differs on this machine over them."""

    def __init__(self, ordinal, directory, secrets, token):
        super().__init__(ordinal, directory, {})
        self.ordinal = ordinal
        self.secrets = secrets
        self.token = token
        self.volume = os.path.join(self.directory, "volume")
        self.data_dir = os.path.join(self.volume, "data")
        self.provision()

    def provision(self):
        """A fresh volume: root's, and the group of the pod may write to it."""
        shutil.rmtree(self.volume, ignore_errors=True)
        os.mkdir(self.volume)
        os.chown(self.volume, 0, USER)
        os.chmod(self.volume, 0o2775)

    def command_line(self):
        settings = {
            "cluster-members": self.members,
            "cluster-secret-file": os.path.join(self.secrets, "secret"),
            "auth-tokens-file": os.path.join(self.secrets, "tokens"),
            "peer-listen": self.peer_address,
            "http-listen": self.http_address,
            "admin-listen": "same",
            "data-dir": self.data_dir,
            "shutdown-delay-ms": "0",
            "raft-election-ms": "300",
        }
        return [
            "env", f"LEAFD_NODE_ID={self.ordinal}", f"LEAFD_ZONE={ZONES[self.ordinal]}",
            "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
            "--no-new-privs", "--bounding-set=-all", "--pdeathsig", "KILL",
            self.binary, "--config", CONF, *(f"--{name}={text}" for name, text in settings.items()),
        ]

    def http(self, method, target, body=None, headers=None, timeout=30.0):
        bearer = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return super().http(method, target, body, bearer, timeout)


@pytest.fixture
def pods(binary):
    """Three pods, as a Cluster; a directory that their user can reach."""
    folder = tempfile.mkdtemp(prefix="leafd-pods-")
    os.chmod(folder, 0o755)
    cluster = Cluster(os.path.join(folder, "unused"), size=0)
    secrets = os.path.join(folder, "secrets")
    ask = {name: subprocess.run([binary, flag], check=True, capture_output=True, text=True).stdout
           for name, flag in (("secret", "--new-secret"), ("tokens", "--new-token"))}
    token, line = ask["tokens"].split("\n")[:2]
    files = {"secret": ask["secret"], "tokens": line.replace("roles=ids", "roles=all") + "\n"}
    mount_secrets(secrets, files)
    cluster.nodes = [Pod(ordinal, os.path.join(folder, f"leafd-{ordinal}"), secrets, token)
                     for ordinal in (1, 2, 3)]
    cluster.set_members({pod.id: pod.peer_address for pod in cluster.nodes})
    yield cluster
    cluster.kill_all()
    shutil.rmtree(folder)


def run_until_it_stays(pod, cluster, node_id):
    """What the kubelet does: start it again, whatever it ended with."""
    while f"next_node={node_id}" not in pod.log():
        pod.start()
        assert pod.wait_exit() == AGAIN_EXIT
    pod.id = node_id
    pod.start().wait_ready(60)
    wait_voters(cluster, {node.id for node in cluster.nodes})


def test_the_file_is_valid_for_each_pod(pods):
    for pod in pods.nodes:
        done = subprocess.run([*pod.command_line(), "--check-config"], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_files_own_addresses_are_valid(pods):
    """As in a cluster: nothing but the id and the secrets is given."""
    pod = pods.nodes[0]
    command = pod.command_line()
    for ordinal in (1, 2, 3):
        begin, end = command.index("setpriv"), command.index("--config")
        done = subprocess.run(
            ["env", f"LEAFD_NODE_ID={ordinal}", *command[begin:end], "--config", CONF,
             f"--cluster-secret-file={pod.secrets}/secret",
             f"--auth-tokens-file={pod.secrets}/tokens", "--check-config"],
            capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.bound(180)
def test_a_pod_whose_volume_is_lost_comes_back(pods):
    pods.start()
    pods.wait_ready()
    wanted = {ordinal: zone or None for ordinal, zone in ZONES.items()}
    wait_until(lambda: wanted == {row["id"]: row["zone"] for row in
                                  pods.leader().get_json("/api/nodes")["nodes"]},
               30, "zones of the pods")
    pods.create_tag("order")
    victim = pods.followers()[0]
    first = int(victim.get("/api/segment/get/order").text)
    victim.kill9()
    victim.provision()
    run_until_it_stays(victim, pods, victim.ordinal + 1000)
    assert int(victim.get("/api/segment/get/order").text) > first
    # A pod that is moved with its volume is the same node.
    victim.stop()
    victim.start().wait_ready()
    wait_voters(pods, {pod.id for pod in pods.nodes})


def test_the_map_fits_the_claim():
    path = os.path.join(ROOT, "scripts", "check-kubernetes")
    loader = importlib.machinery.SourceFileLoader("check_kubernetes", path)
    spec = importlib.util.spec_from_loader("check_kubernetes", loader)
    check = importlib.util.module_from_spec(spec)
    loader.exec_module(check)
    text = ""
    for name in ("leafd.conf", "statefulset.yaml"):
        with open(os.path.join(ROOT, "kubernetes", "base", name), encoding="utf-8") as file:
            text += file.read()
    assert check.map_fault(text) is None
    assert check.map_fault(text.replace("10Gi", "10240Mi")) is None
    assert "four fifths" in check.map_fault(text.replace("10Gi", "10239Mi"))
    assert "four fifths" in check.map_fault(text.replace("8GiB", "16GiB"))
    assert "must both be said" in check.map_fault(text.replace("data.map-bytes = 8GiB", ""))
