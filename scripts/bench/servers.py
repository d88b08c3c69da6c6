"""The servers that are measured: leafd, and what people would use in its place.

Each is started with a data directory of its own on loopback ports of its own; no service of the
system is touched. A server has start(), stop(), pids(), version(), check(), a name, and the
settings that were chosen for it. Where a setting has a price, the peers get the fastest one that
is still durable.
"""

import base64
import json
import os
import pwd
import shutil
import socket
import subprocess

from processes import BenchError, Process, cpu_of_all, pinned, wait_for  # finds the next ones

from client import ProtocolError, once
from cluster import Cluster
from ports import take_port

START_LIMIT_S = 60
INSTALL_LIMIT_S = 120
SQL_LIMIT_S = 20
CATCH_UP_S = 15
HOST = "127.0.0.1"
LEAF_TABLE = """
    CREATE DATABASE bench;
    CREATE USER bench@'127.0.0.1';
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
LEAF_UPDATE = "UPDATE leaf_alloc SET max_id=LAST_INSERT_ID(max_id+1) WHERE biz_tag='order'"


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


def get(port, path):
    """The response to a GET; an OSError while there is none."""
    try:
        return once((HOST, port), "GET", path)
    except ProtocolError as error:
        raise OSError(f"no HTTP from port {port}: {error!r}") from error


def accepts(port):
    """Does anybody listen there?"""
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


class Server:
    """What all servers have in common. `settings` is told in the report."""

    name = "?"
    settings = ""

    def __init__(self, directory, name=None, cores=None, prefix=()):
        self.name = name or self.name
        self.cores = cores  # that it is bound to; None: all
        self.prefix = list(prefix)  # words before its commands
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

    def run(self, command, name=None):
        """Start a process of this server; name, if it is not the only one."""
        process = Process(name or self.name, [*self.prefix, *command], self.directory, self.cores)
        self.processes.append(process)
        return process.start()


class Leafd(Server):
    """A cluster of leafd nodes with the default settings."""

    name = "leafd"

    def __init__(self, directory, binary, size=3, settings=None, cores=None, name=None, prefix=()):
        super().__init__(directory, name, cores, prefix)
        self.binary = binary
        self.settings = f"{size} node{'s' if size > 1 else ''}, " + (
            " ".join(f"{key}={value}" for key, value in settings.items()) if settings
            else "default settings")
        self.cluster = Cluster(self.directory, size, settings or {})
        for node in self.cluster.nodes:
            node.binary = binary
            node.prefix = pinned(cores) + self.prefix

    def reached_by(self, addresses):
        """Before it starts: the nodes know each other by these addresses, in the order of nodes."""
        for node in self.cluster.nodes:
            node.settings["peer-listen"] = node.peer_address
        self.cluster.set_members({node.id: address for node, address
                                  in zip(self.cluster.nodes, addresses)})

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

    def wait_newest_level(self):
        """A new cluster rises to it by itself. An older leafd may have no levels, or not say it."""
        wait_for(lambda: self.cluster.nodes[0].http("GET", "/api/cluster/level").json().get(
            "newest") is not False, START_LIMIT_S, "the cluster is at the newest level")

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

    def __init__(self, directory, name=None, options=("--skip-log-bin",)):
        super().__init__(directory, name)
        self.options = options

    def start(self):
        self.start_empty()
        self.sql(LEAF_TABLE)
        return self

    def start_empty(self):
        """Start it without Leaf's table."""
        data = os.path.join(self.directory, "data")
        self.port = take_port()
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
            f"--port={self.port}", f"--bind-address={HOST}", "--skip-name-resolve",
            f"--pid-file={os.path.join(self.directory, 'pid')}", "--performance-schema=OFF",
            "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M",
            "--max-connections=300", *self.options])
        wait_for(self.answers, START_LIMIT_S, "MariaDB answers", [process])

    def client(self, text):
        """Run SQL as root; the client that has ended."""
        try:
            return subprocess.run(
                [program("mariadb"), "--no-defaults", "--user=root", "--socket=socket",
                 "--skip-column-names", "-e", text],
                cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=SQL_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self.name}: not within {SQL_LIMIT_S} s: {text}") from None

    def answers(self):
        run = self.client("SELECT 1")
        if run.returncode != 0:
            raise OSError(run.stderr.strip())
        return True

    def sql(self, text):
        """Run SQL as root; the rows that come back, each a list of texts."""
        run = self.client(text)
        if run.returncode != 0:
            raise BenchError(f"{self.name}: {run.stderr.strip()}")
        return [line.split("\t") for line in run.stdout.splitlines()]

    def version(self):
        return first_line([program("mariadbd"), "--version"])


class MariaDBPair(Server):
    """A MariaDB and its semi-synchronous replica: a commit is acknowledged when the replica has it,
    so that it survives the loss of either machine.

    Every id is on both disks before it is acknowledged. The replica syncs its relay log and follows
    by positions: by GTIDs it would throw the relay log away when it is started again, and what it
    had acknowledged but not applied would be on the primary alone. It syncs what it applies as
    well, or its position in the relay log could be ahead of its data after a loss of power. The
    primary waits for it an hour, longer than any load; check() finds it if that was not enough.

    least: what is not needed for an acknowledged id to survive the loss of one machine is left out.
    The replica holds it in memory, as it is on the primary's disk; and the primary waits for the
    replica after the engine's commit, when the row's lock is free (ids that are lost then were
    never acknowledged).
    """

    name = "mariadb"
    PRIMARY = ("--server-id=1", "--log-bin=binlog", "--sync-binlog=1",
               "--rpl-semi-sync-master-timeout=3600000")
    REPLICA = ("--server-id=2", "--skip-log-bin", "--relay-log=relay",
               "--rpl-semi-sync-slave-enabled=ON")
    FOLLOW = """
        CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='replica',
            MASTER_PASSWORD='replica', MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4,
            MASTER_USE_GTID=no;
        START SLAVE;
    """
    ADMIT = """
        CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica';
        GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1';
        SET GLOBAL rpl_semi_sync_master_enabled=ON;
    """

    def __init__(self, directory, name=None, least=False):
        super().__init__(directory, name)
        point, flush = ("AFTER_COMMIT", 0) if least else ("AFTER_SYNC", 1)
        self.primary = MariaDB(self.directory, "mariadb-primary", [
            *self.PRIMARY, f"--rpl-semi-sync-master-wait-point={point}"])
        self.replica = MariaDB(self.directory, "mariadb-replica", [
            *self.REPLICA, f"--sync-relay-log={flush}",
            f"--innodb-flush-log-at-trx-commit={flush}"])
        self.settings = (
            "primary: sync_binlog=1, innodb_flush_log_at_trx_commit=1, binlog_format=MIXED, "
            f"rpl_semi_sync_master_wait_point={point}, timeout 1 h; one semi-synchronous replica: "
            f"sync_relay_log={flush}, innodb_flush_log_at_trx_commit={flush}, positions, no binary "
            "log; autocommit, TCP on loopback, performance_schema off")
        self.acknowledged = 0  # commits that the replica had acknowledged after the last load

    def start(self):
        self.primary.start_empty()
        self.replica.start_empty()
        self.primary.sql(self.ADMIT)
        self.replica.sql(self.FOLLOW.format(host=HOST, port=self.primary.port))
        wait_for(lambda: self.status()["clients"] == "1", START_LIMIT_S, "the replica follows",
                 [*self.primary.processes, *self.replica.processes])
        self.primary.sql(LEAF_TABLE)
        self.acknowledged = int(self.status()["yes_tx"])
        return self

    def stop(self):
        self.primary.stop()
        self.replica.stop()

    @property
    def port(self):
        return self.primary.port

    def pids(self):
        return self.primary.pids() + self.replica.pids()

    def version(self):
        return self.primary.version()

    def status(self):
        """What the primary says of semi-synchronous replication; names without their prefix."""
        prefix = "Rpl_semi_sync_master_"
        rows = self.primary.sql(f"SHOW GLOBAL STATUS LIKE '{prefix}%'")
        return {name.removeprefix(prefix): value for name, value in rows}

    def check(self):
        """Both run, and never since the start was a commit acknowledged without the replica."""
        self.primary.check()
        self.replica.check()
        wanted = {"status": "ON", "clients": "1", "no_tx": "0", "no_times": "0"}
        status = self.status()
        found = {name: status[name] for name in wanted}
        if found != wanted:
            raise BenchError(f"replication was not semi-synchronous all the time: {found}")

    def check_load(self, report):
        """The replica acknowledged each id of a load, and has it."""
        before, self.acknowledged = self.acknowledged, int(self.status()["yes_tx"])
        if self.acknowledged - before < report["good"]:
            raise BenchError(f"the replica acknowledged {self.acknowledged - before} commits of "
                             f"{report['good']}")
        file, position = self.primary.sql("SHOW MASTER STATUS")[0][:2]
        self.replica.sql(f"SELECT MASTER_POS_WAIT('{file}', {position}, {CATCH_UP_S})")
        last = self.replica.sql("SELECT max_id FROM bench.leaf_alloc WHERE biz_tag='order'")
        if int(last[0][0]) < report["ids"]["max"]:
            raise BenchError(f"the replica has ids up to {last[0][0]} of {report['ids']['max']}")


class Etcd(Server):
    """etcd with one member or more, its default settings; puts go through its JSON gateway."""

    name = "etcd"

    def __init__(self, directory, size=1, prefix=()):
        super().__init__(directory, prefix=prefix)
        self.settings = ("one member" if size == 1 else f"{size} members") + (
            ", default settings, puts over HTTP (POST /v3/kv/put)")
        self.size = size
        self.ports = []

    def start(self):
        self.ports = [take_port() for _ in range(self.size)]
        peers = {f"etcd-{number}": f"http://{HOST}:{take_port()}"
                 for number in range(1, self.size + 1)}
        for (member, peer), port in zip(peers.items(), self.ports):
            client = f"http://{HOST}:{port}"
            self.run([
                program("etcd"), "--name", member,
                "--data-dir", os.path.join(self.directory, f"data-{member}"),
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", ",".join(f"{name}={url}" for name, url in peers.items()),
                "--log-level", "warn"], name=member)
        wait_for(self.healthy, START_LIMIT_S, "etcd is healthy", self.processes)
        return self

    @property
    def addresses(self):
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def healthy(self):
        replies = [get(port, "/health") for port in self.ports]
        return all(reply.status == 200 and json.loads(reply.text).get("health") == "true"
                   for reply in replies)

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

    def start(self):
        self.port = take_port()
        with open(os.path.join(self.directory, "conf"), "w", encoding="ascii") as conf:
            conf.write(self.CONF.format(host=HOST, port=self.port, body=self.BODY))
        process = self.run([program("nginx"), "-p", self.directory + "/", "-c", "conf",
                            "-e", "error.log"])
        wait_for(lambda: get(self.port, "/").text == self.BODY, START_LIMIT_S,
                 "nginx answers", [process])
        return self

    def version(self):
        return first_line([program("nginx"), "-v"])


class NginxTls(Nginx):
    """The same over TLS, with nginx's defaults but for the choice of one cipher."""

    settings = "one worker, return 200, no access log; TLS 1.3, AES-128-GCM, X25519, tickets"
    CONF = Nginx.CONF.replace("backlog=1024;", """ssl backlog=1024;
                ssl_certificate {pem};
                ssl_certificate_key {key};
                ssl_protocols TLSv1.2 TLSv1.3;
                ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
                ssl_ecdh_curve X25519:P-256;""")

    def __init__(self, directory, pem, key, cores=None):
        super().__init__(directory, cores=cores)
        self.pem = pem
        self.key = key

    def start(self):
        self.port = take_port()
        with open(os.path.join(self.directory, "conf"), "w", encoding="ascii") as conf:
            conf.write(self.CONF.format(host=HOST, port=self.port, body=self.BODY, pem=self.pem,
                                        key=self.key))
        process = self.run([program("nginx"), "-p", self.directory + "/", "-c", "conf",
                            "-e", "error.log"])
        wait_for(self.answers, START_LIMIT_S, "nginx answers", [process])
        return self

    def answers(self):
        with socket.create_connection((HOST, self.port), timeout=5):
            return True


class Redis(Server):
    """Redis without persistence: the fastest that it has."""

    name = "redis"
    settings = "no persistence, one thread"

    def start(self):
        self.port = take_port()
        process = self.run([
            program("redis-server"), "--port", str(self.port), "--bind", HOST, "--save", "",
            "--appendonly", "no", "--daemonize", "no", "--dir", self.directory,
            "--maxclients", "20000"])
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

    def __init__(self, directory, binary, cores=None, name=None):
        super().__init__(directory, name, cores)
        self.binary = binary

    def start(self):
        self.port = take_port()
        process = self.run([self.binary, str(self.port)])
        wait_for(lambda: get(self.port, "/").status == 200, START_LIMIT_S, "bare answers",
                 [process])
        return self

    def version(self):
        return "this tree's"


class Distance(Server):
    """A relay before other servers' ports that passes each byte on later, both ways: distance.c.
    `addresses` are its own, in the order of theirs, which need not listen yet."""

    name = "distance"

    def __init__(self, directory, binary, delay_us, to, name=None):
        super().__init__(directory, name)
        self.command = [binary, str(delay_us)]
        self.settings = f"{delay_us} us each way"
        self.to = to
        self.ports = []

    @property
    def addresses(self):
        return [f"{HOST}:{port}" for port in self.ports]

    def start(self):
        self.ports = [take_port() for _ in self.to]
        process = self.run([*self.command, *map("=".join, zip(self.addresses, self.to))])
        wait_for(lambda: all(map(accepts, self.ports)), START_LIMIT_S, "distance listens",
                 [process])
        return self

    def version(self):
        return "this tree's"
