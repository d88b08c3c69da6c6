"""The servers that are measured: leafd, and what people would use in its place.

Each is started with a data directory of its own on loopback ports of its own; no service of the
system is touched. A server has start(), stop(), pids(), version(), check(), a name, and the
settings that were chosen for it. Where a setting has a price, the peers get the fastest one that
is still durable.
"""

import base64
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys

from processes import BenchError, Process, cpu_of_all, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "cluster-tests"))

from cluster import Cluster  # noqa: E402
from ports import take_port  # noqa: E402

START_LIMIT_S = 60
INSTALL_LIMIT_S = 120
HOST = "127.0.0.1"
LEAF_TABLE = """
    CREATE DATABASE bench;
    CREATE USER bench@'127.0.0.1' IDENTIFIED BY 'bench';
    GRANT ALL ON bench.* TO bench@'127.0.0.1';
    USE bench;
    CREATE TABLE leaf_alloc (
      biz_tag varchar(128) NOT NULL DEFAULT '',
      max_id bigint(20) NOT NULL DEFAULT '1',
      step int(11) NOT NULL,
      description varchar(256) DEFAULT NULL,
      update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
      PRIMARY KEY (biz_tag)
    ) ENGINE=InnoDB;
    INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 1);
"""


def program(name):
    """The path of a peer's program; /usr/sbin is not in everyone's PATH."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
    if path is None:
        raise BenchError(f"{name} is not installed; scripts/setup bench installs it")
    return path


def first_line(command):
    """The first line that a command prints, on stdout or stderr."""
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=20, check=False)
    return (run.stdout.strip().splitlines() or ["unknown"])[0]


def request(port, method, path, body=None):
    """(status, text) of one HTTP request."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP from port {port}: {error!r}") from error
    finally:
        connection.close()


class Server:
    """What all servers have in common. `settings` is told in the report."""

    name = "?"
    settings = ""

    def __init__(self, directory, name=None):
        self.name = name or self.name
        self.directory = os.path.join(directory, self.name)
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        self.processes = []

    def pids(self):
        return [process.pid for process in self.processes]

    def cpu(self):
        return cpu_of_all(self.pids())

    def check(self):
        for process in self.processes:
            process.check()

    def stop(self):
        for process in reversed(self.processes):
            process.stop()
        self.processes = []

    def run(self, command, cores=None, **options):
        """Start a process of this server."""
        process = Process(self.name, command, self.directory, cores, **options)
        self.processes.append(process)
        return process.start()


class Leafd(Server):
    """A cluster of leafd nodes with the default settings."""

    name = "leafd"

    def __init__(self, directory, binary, size=3, settings=None, cores=None, name=None):
        super().__init__(directory, name)
        os.environ["LEAFD"] = binary  # where the cluster's nodes take it from
        self.binary = binary
        self.settings = f"{size} node{'s' if size > 1 else ''}, " + (
            " ".join(f"{key}={value}" for key, value in settings.items()) if settings
            else "default settings")
        self.cluster = Cluster(self.directory, size, settings or {})
        for node in self.cluster.nodes:
            node.prefix = ["taskset", "-c", ",".join(map(str, cores))] if cores else []

    def start(self):
        self.cluster.start()
        self.cluster.leader()
        return self

    def stop(self):
        self.cluster.end()

    def pids(self):
        return [node.process.pid for node in self.cluster.running()]

    def check(self):
        faults = self.cluster.faults()
        if faults:
            raise BenchError("\n".join(faults))

    def version(self):
        return first_line([self.binary, "--version"])

    @property
    def addresses(self):
        return ",".join(node.http_address for node in self.cluster.nodes)

    def put_tag(self, tag, **fields):
        """Make a tag or change it; (status, text)."""
        response = self.cluster.nodes[0].http("PUT", f"/api/tags/{tag}", fields)
        return response.status, response.text

    def must_put_tag(self, tag, **fields):
        """Make a tag, which must be new."""
        status, text = self.put_tag(tag, **fields)
        if status != 201:
            raise BenchError(f"the tag {tag} could not be made: {status}: {text}")

    def make_tags(self, tags, **fields):
        """Make many tags, which must be new."""
        for first in range(0, len(tags), 10000):
            body = [{"tag": tag, **fields} for tag in tags[first:first + 10000]]
            response = self.cluster.nodes[0].http("POST", "/api/tags", body, timeout=60)
            if response.status != 200:
                raise BenchError(f"tags could not be made: {response}")


class MariaDB(Server):
    """MariaDB with Leaf's table, durable at each commit, without a binary log."""

    name = "mariadb"
    settings = ("innodb_flush_log_at_trx_commit=1, no binary log, autocommit, TCP on loopback, "
                "performance_schema off")

    def start(self):
        data = os.path.join(self.directory, "data")
        port = take_port()
        user = f"--user={pwd.getpwuid(os.getuid()).pw_name}"
        install = subprocess.run(
            [program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal", user],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=INSTALL_LIMIT_S, check=False)
        if install.returncode != 0:
            raise BenchError(f"mariadb-install-db failed:\n{install.stdout}")
        # A socket's path has a short bound, so it is named from the data directory.
        process = self.run([
            program("mariadbd"), "--no-defaults", user, f"--datadir={data}", "--socket=../socket",
            f"--port={port}", f"--bind-address={HOST}", "--skip-name-resolve", "--skip-log-bin",
            f"--pid-file={os.path.join(self.directory, 'pid')}", "--performance-schema=OFF",
            "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M",
            "--max-connections=300"])
        self.port = port
        self.sql("SELECT 1", START_LIMIT_S, process)
        self.sql(LEAF_TABLE, 0, process)
        return self

    def sql(self, text, limit_s, process):
        """Run SQL as root; again and again within the limit, while the server comes up."""
        said = []

        def done():
            run = subprocess.run(
                [program("mariadb"), "--no-defaults", "--user=root", "--socket=socket", "-e", text],
                cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=20, check=False)
            said[:] = [run.stderr]
            return run.returncode == 0

        try:
            wait_for(done, limit_s, "MariaDB answers", [process])
        except BenchError as error:
            raise BenchError(f"{error}: {said}") from None

    def version(self):
        return first_line([program("mariadbd"), "--version"])


class Etcd(Server):
    """A single etcd, its default settings; puts go through its JSON gateway."""

    name = "etcd"
    settings = "one member, default settings, puts over HTTP (POST /v3/kv/put)"

    def start(self):
        self.port, peer_port = take_port(), take_port()
        client, peer = f"http://{HOST}:{self.port}", f"http://{HOST}:{peer_port}"
        process = self.run([
            program("etcd"), "--data-dir", os.path.join(self.directory, "data"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--log-level", "warn"])
        wait_for(self.healthy, START_LIMIT_S, "etcd is healthy", [process])
        return self

    def healthy(self):
        status, text = request(self.port, "GET", "/health")
        return status == 200 and json.loads(text).get("health") == "true"

    @staticmethod
    def put_body(key, value="1"):
        """The JSON of a put."""
        return json.dumps({"key": base64.b64encode(key.encode()).decode(),
                           "value": base64.b64encode(value.encode()).decode()},
                          separators=(",", ":"))

    def version(self):
        return first_line([program("etcd"), "--version"])


class Nginx(Server):
    """nginx answering a constant: what an HTTP server costs that does nothing else."""

    name = "nginx"
    settings = "one worker, return 200, no access log"
    BODY = "12345678"
    CONF = """
        daemon off;
        master_process off;
        worker_rlimit_nofile 65536;
        error_log error.log;
        pid pid;
        events {{ worker_connections 16384; }}
        http {{
            access_log off;
            keepalive_requests 1000000000;
            client_body_temp_path temp-body;
            proxy_temp_path temp-proxy;
            fastcgi_temp_path temp-fastcgi;
            uwsgi_temp_path temp-uwsgi;
            scgi_temp_path temp-scgi;
            default_type text/plain;
            server {{
                listen {host}:{port} backlog=1024;
                location / {{ return 200 "{body}"; }}
            }}
        }}
    """

    def __init__(self, directory, cores=None):
        super().__init__(directory)
        self.cores = cores

    def start(self):
        self.port = take_port()
        with open(os.path.join(self.directory, "conf"), "w", encoding="ascii") as conf:
            conf.write(self.CONF.format(host=HOST, port=self.port, body=self.BODY))
        process = self.run([program("nginx"), "-p", self.directory + "/", "-c", "conf",
                            "-e", "error.log"], self.cores)
        wait_for(lambda: request(self.port, "GET", "/")[1] == self.BODY, START_LIMIT_S,
                 "nginx answers", [process])
        return self

    def version(self):
        return first_line([program("nginx"), "-v"])


class Redis(Server):
    """Redis without persistence: the fastest that it has."""

    name = "redis"
    settings = "no persistence, one thread"

    def __init__(self, directory, cores=None):
        super().__init__(directory)
        self.cores = cores

    def start(self):
        self.port = take_port()
        process = self.run([
            program("redis-server"), "--port", str(self.port), "--bind", HOST, "--save", "",
            "--appendonly", "no", "--daemonize", "no", "--dir", self.directory,
            "--maxclients", "20000"], self.cores)
        wait_for(self.answers, START_LIMIT_S, "Redis answers", [process])
        return self

    def answers(self):
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100) == b"+PONG\r\n"

    def version(self):
        return first_line([program("redis-server"), "--version"])


class Bare(Server):
    """The bare epoll loop that answers a constant: bare.c."""

    name = "bare"
    settings = "one thread; no request is looked at"
    BODY = "12345678"

    def __init__(self, directory, binary, cores=None):
        super().__init__(directory)
        self.binary = binary
        self.cores = cores

    def start(self):
        self.port = take_port()
        process = self.run([self.binary, str(self.port)], self.cores)
        wait_for(lambda: request(self.port, "GET", "/")[0] == 200, START_LIMIT_S, "bare answers",
                 [process])
        return self

    def version(self):
        return "this tree's"
