"""A cluster of leafd processes on 127.0.0.1."""

import os
import secrets

from client import tag_path
from node import START_TIMEOUT_S, Node
from wait import wait_until

# Quick elections for tests that are not about their length, and two HTTP loops on any machine.
FAST = {"raft-election-ms": 300, "http-loops": 2}
# For tests that a leader must not leave by chance: the machine may stand still for seconds.
STEADY = {**FAST, "raft-election-ms": 4000}


class Cluster:
    """size nodes with ids 1..size; settings go to every node (see Node)."""

    def __init__(self, directory, size=3, settings=None, members=None):
        self.directory = str(directory)
        os.makedirs(self.directory, exist_ok=True)
        self.secret_file = os.path.join(self.directory, "secret")
        write_secret(self.secret_file, secrets.token_hex(32))
        merged = {"cluster-secret-file": self.secret_file, **(settings or {})}
        self.nodes = [
            Node(node_id, os.path.join(self.directory, f"node{node_id}"), merged)
            for node_id in range(1, size + 1)
        ]
        self.spares = []
        self.set_members(members or {node.id: node.peer_address for node in self.nodes})

    def set_members(self, members):
        text = ",".join(f"{node_id}={address}" for node_id, address in members.items())
        for node in self.nodes:
            node.members = text

    def spare(self, node_id):
        """A node object with the id of another, and with ports and a directory of its own."""
        node = Node(
            node_id,
            os.path.join(self.directory, f"spare{len(self.spares) + 1}"),
            self.nodes[0].settings,
        )
        node.members = self.nodes[0].members
        node.settings["peer-listen"] = node.peer_address
        self.spares.append(node)
        return node

    def newcomer(self, node_id, *targets):
        """A node, not started yet, that asks these (or all that run) to let it join."""
        node = Node(
            node_id, os.path.join(self.directory, f"node{node_id}"), self.nodes[0].settings
        )
        node.members = None
        addresses = [target.peer_address for target in targets or self.running()]
        node.settings["join"] = ",".join(addresses)
        node.settings["peer-listen"] = node.peer_address
        self.nodes.append(node)
        return node

    def dismiss(self, node):
        """It is no longer a member; its log is still looked over at the end."""
        self.nodes.remove(node)
        self.spares.append(node)

    def members(self, among=None):
        """{id: role} as the leader has it."""
        return {m["id"]: m["role"] for m in self.leader().cluster_status()["members"]}

    def node(self, node_id):
        return next(node for node in self.nodes if node.id == node_id)

    def start(self):
        for node in self.nodes:
            node.start()
        return self.wait_ready()

    def wait_ready(self, timeout=START_TIMEOUT_S):
        for node in self.running():
            node.wait_ready(timeout)
        return self

    def running(self):
        return [node for node in self.nodes if node.alive]

    def others(self, *nodes):
        """Running nodes but these."""
        return [node for node in self.running() if node not in nodes]

    def find_leader(self, among=None):
        """The leader of the newest term, if a majority of the cluster's nodes follows it."""
        statuses = {}
        for node in among if among is not None else self.running():
            statuses[node.id] = node.cluster_status()
        leading = [s for s in statuses.values() if s["state"] == "leader"]
        if not leading:
            return None
        newest = max(leading, key=lambda status: status["term"])
        agreeing = [
            s
            for s in statuses.values()
            if s["leader_id"] == newest["node_id"] and s["term"] == newest["term"]
        ]
        if len(agreeing) * 2 <= len(self.nodes):
            return None
        return self.node(int(newest["node_id"]))

    def wait_leader(self, timeout=30.0, among=None, what="a leader that a majority follows"):
        return wait_until(lambda: self.find_leader(among), timeout, what)

    def wait_follows(self, node):
        """Until the node knows the leader that a majority follows. (On a machine that stands still
        for an election timeout it is another one than a moment before.)"""

        def follows():
            leader = self.find_leader()
            return leader is not None and node.cluster_status()["leader_id"] == leader.id

        wait_until(follows, 30, f"{node} follows the leader")

    def leader(self):
        return self.wait_leader()

    def followers(self):
        return self.others(self.leader())

    def create_tag(self, tag, node=None, force=False, **fields):
        """Make a tag; it must be new."""
        via = node or self.running()[0]
        query = "?force=1" if force else ""
        response = via.http("PUT", f"/api/tags/{tag_path(tag)}{query}", fields)
        assert response.status == 201, f"{via} PUT {tag}: {response}"
        return response

    def wait_applied(self, nodes=None, timeout=30.0):
        """All nodes have applied what one of them has applied by now. (Under load they never show
        the same index.)"""
        by_now = []

        def applied():
            found = [node.cluster_status()["applied_index"] for node in nodes or self.running()]
            by_now.append(max(found))
            return min(found) >= by_now[0]

        wait_until(applied, timeout, "all nodes have applied what one had")

    def kill_all(self):
        for node in self.running():
            node.leaving()
            node.process.kill()
        for node in self.nodes:
            if node.process is not None:
                node.wait_exit()

    def stop_all(self):
        """SIGTERM to all at once, and exit code 0 of all."""
        stopping = self.running()
        for node in stopping:
            node.leaving()
            node.process.terminate()
        codes = {node.id: node.wait_exit() for node in stopping}
        assert set(codes.values()) == {0}, f"exit codes {codes}"

    def faults(self):
        """Texts of all that no test expects: processes that died, lines of the logs."""
        found = []
        for node in self.nodes + self.spares:
            if node.process is not None and node.alive and node.process.poll() is not None:
                found.append(f"{node} died with {node.process.returncode}:\n{node.log_tail()}")
                node.leaving()
            found.extend(f"{node} logged: {line}" for line in node.bad_log_lines())
        return found

    def end(self):
        for node in self.nodes + self.spares:
            node.end()


def write_secret(path, text):
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as secret:
        secret.write(text)
