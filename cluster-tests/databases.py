"""Databases of a test's own, each in a directory of its own and on a local socket alone: MariaDB,
PostgreSQL, Redis. Skipped where they are not installed (scripts/setup databases)."""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

import pytest

from wait import wait_until

PATHS = "/usr/sbin:/usr/bin:" + ":".join(sorted(glob.glob("/usr/lib/postgresql/*/bin")))


def found(program):
    return shutil.which(program, path=PATHS)


def needs(*programs):
    return pytest.mark.skipif(not all(map(found, programs)),
                              reason=f"no {programs[0]}: scripts/setup databases")


class Database:
    """One server. Subclasses say how it is made, run and asked; kill() is kill -9."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="leafd-db-")  # a socket's path has a bound
        self.user = self.owner()
        self.process = None
        if os.geteuid() == 0:
            shutil.chown(self.directory, self.user)
        self.log = open(os.path.join(self.directory, "log"), "wb")
        self.make()
        self.start()

    def owner(self):
        return pwd.getpwuid(os.geteuid()).pw_name

    def as_owner(self, *words):
        switch = [] if self.user == pwd.getpwuid(os.geteuid()).pw_name else [
            f"--reuid={self.user}", f"--regid={pwd.getpwnam(self.user).pw_gid}", "--clear-groups"]
        return ["setpriv", "--pdeathsig", "KILL", *switch, *words]

    def run_once(self, *words):
        done = subprocess.run(words, capture_output=True, timeout=120, cwd=self.directory)
        assert done.returncode == 0, done

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self):
        self.process = subprocess.Popen(self.as_owner(*self.command()), cwd=self.directory,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_until(lambda: self.run("SELECT 1", check=False).returncode == 0, 60, self.command()[0])

    def run(self, text, check=True):
        """What statements print; a failure is an error."""
        return subprocess.run(self.client(), input=text, capture_output=True, text=True, timeout=60,
                              check=check)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class MariaDB(Database):
    def make(self):
        self.run_once(found("mariadb-install-db"), *self.common(), "--skip-test-db",
                      "--auth-root-authentication-method=normal")

    def common(self):
        return ["--no-defaults", f"--datadir={self.path('data')}", f"--user={self.user}"]

    def command(self):
        return [found("mariadbd"), *self.common(), f"--socket={self.path('socket')}",
                "--skip-networking", "--innodb-buffer-pool-size=16M"]

    def client(self, *more):
        return [found("mariadb"), "--no-defaults", f"--socket={self.path('socket')}", "-uroot",
                "-B", "--default-character-set=utf8mb4", *more]

    def address(self, name, user="root"):
        return f"{user}@{self.path('socket')}/{name}"


class Postgres(Database):
    def owner(self):
        return "postgres" if os.geteuid() == 0 else super().owner()

    def make(self):
        self.run_once(*self.as_owner(found("initdb"), "-D", self.path("data"), "-A", "trust", "-U",
                                     "postgres", "--no-sync", "-E", "UTF8"))

    def command(self):
        return [found("postgres"), "-D", self.path("data"), "-k", self.directory, "-c",
                "listen_addresses=", "-c", "shared_buffers=16MB"]

    def client(self):
        return [found("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h",
                self.directory, "-U", "postgres", "-d", "postgres"]

    def end(self):
        self.process.send_signal(signal.SIGINT)  # clients are not waited for
        super().end()

    def address(self, user="postgres"):
        return f"{user}@{self.directory}/postgres"


class Redis(Database):
    def make(self):
        pass

    def command(self):
        return [found("redis-server"), "--port", "0", "--unixsocket", self.path("socket"), "--dir",
                self.directory, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]

    def client(self):
        return [found("redis-cli"), "-e", "-s", self.path("socket")]

    def start(self):
        self.process = subprocess.Popen(self.as_owner(*self.command()), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        wait_until(lambda: self.run("PING\n", check=False).stdout == "PONG\n", 60, "redis-server")

    def address(self):
        return f"{self.path('socket')}/0"
