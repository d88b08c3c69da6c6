"""containers.py - a cluster of docker-compose.yml as the cluster tests' Cluster: its nodes are
containers, seen through the ports that they publish on 127.0.0.1.

The happy path: Project(...).up(), a ContainerCluster on it, faults by docker kill, pause and
network disconnect; down() removes containers, networks and volumes.

Each project has a name and an image of its own, so that a cluster of the user's is never touched.
Settings for the test alone stand in an override file.
"""

import json
import os

from cluster import Cluster
from node import Node
from ports import can_bind, take_port
from wait import wait_until

UP_LIMIT_S = 120
READY_LIMIT_S = 60
SERVICES = {3: ["leafd1", "leafd2", "leafd3"],
            5: ["leafd1", "leafd2", "leafd3", "leafd4", "leafd5"]}


def choose_ports(first, count):
    """This one and so on where they are free, else some that are."""
    usual = [first + number for number in range(count)]
    return usual if all(map(can_bind, usual)) else [take_port() for _ in usual]


class Project:
    """One project of compose, with 3 or 5 nodes."""

    def __init__(self, engine, root, name, settings, override, nodes=3):
        self.engine = engine
        self.name = name
        self.nodes = nodes
        self.ports = choose_ports(8081, nodes)
        resp_ports = choose_ports(6381, nodes)
        self.token = None
        self.settings = {**settings,
                         **{f"PORT{i}": str(port) for i, port in enumerate(self.ports, 1)},
                         **{f"RESP{i}": str(port) for i, port in enumerate(resp_ports, 1)}}
        self.arguments = ["--project-directory", root, "-p", name,
                          "-f", os.path.join(root, "docker-compose.yml"), "-f", override]
        if nodes == 5:
            self.arguments += ["--env-file", os.path.join(root, "scripts", "compose", "five.env"),
                               "--profile", "five"]

    def compose(self, *arguments, **options):
        return self.engine.compose(*self.arguments, *arguments, env=self.settings, **options)

    def up(self):
        self.compose("up", "-d", "--no-build", limit_s=UP_LIMIT_S)

    def stop(self, limit_s):
        self.compose("stop", limit_s=limit_s)

    def down(self, volumes=False):
        self.compose("down", "--remove-orphans", *(["-v"] if volumes else []))

    def services(self):
        return SERVICES[self.nodes]

    def container(self, service):
        """The container's id, also of one that does not run; None if there is none."""
        listed = self.engine.docker(
            "ps", "-a", "-q", "--filter", f"label=com.docker.compose.project={self.name}",
            "--filter", f"label=com.docker.compose.service={service}").split()
        return listed[0] if listed else None

    def decoy(self, network):
        """A container that takes the next free address of the network; its id."""
        return self.engine.docker("run", "-d", "--network", network, "--entrypoint", "sleep",
                                  self.settings["IMAGE"], "infinity").strip()

    def keep_logs(self, directory):
        """Write what each container has said to a file of the directory."""
        os.makedirs(directory, exist_ok=True)
        for service in [*self.services(), "secret"]:
            container = self.container(service)
            if container:
                with open(os.path.join(directory, f"{self.nodes}-{service}.log"), "w",
                          encoding="utf-8") as file:
                    file.write(self.engine.docker("logs", container, merge=True, quiet=True))

    def left(self):
        """What Docker still has of this project."""
        label = f"label=com.docker.compose.project={self.name}"
        return {kind: found for kind, arguments in {
            "containers": ["ps", "-a", "-q"], "networks": ["network", "ls", "-q"],
            "volumes": ["volume", "ls", "-q"]}.items()
            if (found := self.engine.docker(*arguments, "--filter", label).split())}


class ContainerNode(Node):
    """A node in a container. Its log is what Docker kept of its output."""

    def __init__(self, project, node_id, port):  # a Node has a process and a directory instead
        self.project = project
        self.engine = project.engine
        self.id = node_id
        self.service = f"leafd{node_id}"
        self.http_port = port
        self.alive = False
        self.serving = False
        self.disturbed = False  # its clients may be refused
        self.incarnation = 0
        self.log_checked = 0
        self.expected_log = []
        self.process = None
        self.tls = None

    @property
    def container(self):
        return self.project.container(self.service)

    def http(self, method, target, body=None, headers=None, timeout=15.0):
        head = {"Host": "127.0.0.1", **(headers or {})}
        if target.startswith("/api/"):
            head["Authorization"] = f"Bearer {self.token()}"
        return super().http(method, target, body, head, timeout)

    def token(self):
        """What docs/operations.md says to look up. It lasts as long as the project's volumes."""
        if self.project.token is None:
            self.project.token = self.shell("cat /run/leafd/token").strip()
        return self.project.token

    def inspect(self, template):
        return json.loads(self.engine.docker("inspect", "--format", f"{{{{json {template}}}}}",
                                             self.container))

    def state(self):
        return self.inspect(".State")

    def started(self):
        """To be called when the container was started, by whomever."""
        self.incarnation += 1
        self.alive = True
        return self

    def check_running(self):
        """Nothing to check: a container that ended may be started again by its restart policy."""

    def is_healthy(self):
        return self.state().get("Health", {}).get("Status") == "healthy"

    def wait_healthy(self, timeout=READY_LIMIT_S):
        wait_until(self.is_healthy, timeout, f"{self} healthy")

    def shell(self, script):
        """Run a script in the container; its output."""
        return self.engine.docker("exec", self.container, "bash", "-euc", script)

    def docker(self, *words):
        return self.engine.docker(*words, self.container)

    def log(self):
        return self.engine.docker("logs", self.container, merge=True, quiet=True)

    def peers_network(self):
        """(name of the nodes' own network, this node's address there or None)."""
        networks = self.inspect(".NetworkSettings.Networks")
        name = f"{self.project.name}_peers"
        return name, networks.get(name, {}).get("IPAddress")


class ContainerCluster(Cluster):
    """The nodes of a project."""

    def __init__(self, project):  # a Cluster makes processes instead
        self.project = project
        self.directory = ""
        self.nodes = [ContainerNode(project, node_id, port)
                      for node_id, port in enumerate(project.ports, 1)]
        self.spares = []

    def started(self):
        """All nodes were started: wait until they are ready."""
        for node in self.nodes:
            node.started()
        for node in self.nodes:
            node.wait_ready(READY_LIMIT_S)
        return self

    def bad_log_lines(self):
        return [f"{node}: {line}" for node in self.nodes for line in node.bad_log_lines()]
