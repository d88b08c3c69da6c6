"""engine.py - a Docker to test with: the machine's, or one started for the test alone.

The happy path: an Engine of the Docker that answers already; where none does and this is root,
start() runs one of our own (scripts/compose/daemon) with its data in a directory of the test, and
stop() ends it with everything in it. docker() and compose() run the commands on it: the plugin
`docker compose` where there is one, else docker-compose 1.29.

Failure modes: EngineError with the reason and the end of the daemon's log.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time

from wait import wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
START_LIMIT_S = 60
STOP_LIMIT_S = 60
QUESTION_S = 20
COMMAND_S = 120


class EngineError(Exception):
    """There is no Docker to test with; the text says why."""


def succeeds(command, env=None):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=env,
                              timeout=QUESTION_S).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def compose_command():
    """The words before compose's own arguments, or None."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if succeeds([*command, "version"]):
            return command
    return None


class Engine:
    def __init__(self, report, env, process=None, child=None, run_dir=None, data_dir=None):
        self.report = report
        self.env = env
        self.process = process  # None: the machine's Docker
        self.child = child
        self.run_dir = run_dir
        self.data_dir = data_dir
        self.command = compose_command()
        if self.command is None:
            raise EngineError("neither 'docker compose' nor docker-compose is installed")
        # docker-compose 1.29 builds with the classic builder; docker build has to share its cache.
        self.classic = self.command == ["docker-compose"]
        if self.classic:
            self.env["DOCKER_BUILDKIT"] = "0"

    @property
    def own(self):
        return self.process is not None

    def docker(self, *arguments, limit_s=COMMAND_S, **options):
        return self.report.run(["docker", *arguments], limit_s, env=self.env, **options)

    def compose(self, *arguments, limit_s=COMMAND_S, env=None, **options):
        return self.report.run([*self.command, *arguments], limit_s,
                               env={**self.env, **(env or {})}, **options)

    def has_image(self, image):
        return succeeds(["docker", "image", "inspect", image], self.env)

    def describe(self):
        server = json.loads(self.docker("version", "--format", "{{json .Server}}"))
        driver = self.docker("info", "--format", "{{.Driver}}").strip()
        version = self.compose("version", "--short").strip()
        return (f"Docker {server['Version']} ({driver}{', started for this test' * self.own}), "
                f"{' '.join(self.command)} {version}")

    def stop(self):
        """End a Docker of our own and remove its data."""
        if self.process is None:
            return
        if self.process.poll() is None:
            os.kill(self.child, 15)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            # Process 1 of its namespace: with it all others go.
            os.kill(self.child, 9)
            self.process.wait()
            self.report.say(f"dockerd did not stop in {STOP_LIMIT_S} s and was killed")
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.data_dir)


def answers():
    """Is there a Docker that answers already?"""
    return succeeds(["docker", "info"])


def child_of(parent):
    """The process whose parent this is, or None."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    return int(name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return None


def tail(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-20:])
    except FileNotFoundError:
        return ""


def start(report, directory):
    """A Docker of our own. The sockets' directory is elsewhere, since their paths must be short."""
    run_dir = tempfile.mkdtemp(prefix="leafd-compose-")
    data_dir = tempfile.mkdtemp(prefix="docker-", dir=directory)
    namespaces = ["unshare", "--mount", "--propagation", "unchanged", "--pid", "--fork",
                  "--kill-child=TERM"]
    process = subprocess.Popen(
        # When this process is gone unshare is killed, and then the daemon stops.
        ["setpriv", "--pdeathsig", "KILL", *namespaces, os.path.join(HERE, "daemon"), run_dir,
         data_dir, os.path.basename(run_dir)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True)
    env = {**os.environ, "DOCKER_HOST": f"unix://{run_dir}/docker.sock"}
    for name in ("DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"):
        env.pop(name, None)

    def is_up():
        if process.poll() is not None:
            raise EngineError(f"dockerd ended with {process.returncode}:\n"
                              f"{process.stderr.read().decode()}{tail(f'{run_dir}/dockerd.log')}")
        return succeeds(["docker", "info"], env)

    begin = time.monotonic()
    try:
        wait_until(is_up, START_LIMIT_S, "an answer of dockerd")
    except BaseException:
        process.kill()
        process.wait()
        report.keep(tail(f"{run_dir}/dockerd.log"))
        shutil.rmtree(run_dir, ignore_errors=True)
        shutil.rmtree(data_dir, ignore_errors=True)
        raise
    report.note(f"dockerd answered after {time.monotonic() - begin:.1f} s")
    return Engine(report, env, process, child_of(process.pid), run_dir, data_dir)
