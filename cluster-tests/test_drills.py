"""The drills of docs/drills.md, the screens of docs/leafctl.md and the README, on real nodes.

A drill is a section with a block of commands (behind "$ ") and what they print, that begins with
`make run`: scripts/run-cluster here, on free ports and in a directory of the test's own. Each line
that the page shows has to come, in that order; other lines may stand between them. Numbers that no
run repeats (times, sizes, ids, terms) are not compared; ids of nodes and counts are. What looks
without changing anything is asked again until it shows what the page says.
"""

import os
import re
import signal
import subprocess

import pytest

from leafctl import environment, leafctl_path
from node import ROOT, leafd_path
from test_run_cluster import Runner
from wait import within

PAGES = ["docs/drills.md", "docs/leafctl.md", "README.md"]
LOOKS = re.compile(r"leafctl (--server \S+ )?(status|check|members|events|level)|grep ")
WAIT_S = 30
NOT_COMPARED = [
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"[+-]?\d+(\.\d+)? (ms|s|min|h|B|KiB|MiB|GiB)\b", "#"),
    (r"(term|index) \d+", r"\1 #"),
    (r"\d{4,}", "#"),
    (r"\s+", " "),
]


def drills():
    """{heading: [(command, [lines that it prints])]}"""
    parts, found = [], {}
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            parts += re.split(r"^## (.*)$", file.read(), flags=re.M)[1:]
    for heading, part in zip(parts[::2], parts[1::2]):
        steps = []
        for block in re.findall(r"^```\n(.*?)^```$", part, flags=re.M | re.S):
            for line in block.replace("\\\n", "").splitlines():
                if line.startswith("$ "):
                    steps.append((line[2:].split("  # ")[0].strip(), []))
                elif steps and line != "...":
                    steps[-1][1].append(line)
        if steps and steps[0][0].startswith("make run"):
            found[heading] = steps
    return found


def plain(line):
    for pattern, name in NOT_COMPARED:
        line = re.sub(pattern, name, line)
    return line.strip()


def missing(wanted, output):
    """The first line that did not come, or None."""
    lines = iter([plain(line) for line in output.splitlines()])
    return next((line for line in wanted if plain(line) and plain(line) not in lines), None)


class Drill:
    """A folder with a cluster of `make run`, and a shell's environment."""

    def __init__(self, folder):
        self.runner = Runner(folder, 3)
        self.runner.data = str(folder / "drill")
        self.folder = folder
        self.env = environment(folder, PATH=":".join(
            [os.path.dirname(leafctl_path()), os.path.dirname(leafd_path()), os.environ["PATH"]]))
        self.env["LEAFCTL_SERVER"] = ",".join(
            f"127.0.0.1:{self.runner.http_port + n}" for n in range(3))

    def own(self, text):
        """The text with ports and the folder of this run."""
        text = text.replace(" data/", " drill/").replace("(cat data/", "(cat drill/")
        for first, mine in ((8081, self.runner.http_port), (7081, self.runner.peer_port)):
            for n in range(3):
                text = text.replace(f":{first + n}", f":{mine + n}")
        return text

    def make_run(self, command):
        found = re.fullmatch(r'make run(?: DATA=drill)?(?: SETTINGS=("[^"]+"|\S+))?', command)
        assert found, command
        # No page tells of the leader that follows when the machine stands still for a second.
        command = [*self.runner.command(), "--setting", "raft.election-ms=4000"]
        for setting in (found[1] or "").strip('"').split():
            command += ["--setting", self.own(setting)]
        self.runner.start(command=command)

    def shell(self, command):
        done = subprocess.run(["bash", "-c", self.own(command)], env=self.env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.stdout

    def step(self, command, wanted):
        said = []

        def came():
            said.append(self.shell(command))
            assert missing(wanted, said[-1]) is None
            return True

        if command.startswith("make run"):
            return self.make_run(command)
        try:
            within(came, WAIT_S if LOOKS.match(command) else 0, command)
        except AssertionError:
            lack = missing(wanted, said[-1])
            pytest.fail(f"$ {command}\n{said[-1]}\nlacks: {lack}\nas: {plain(lack or '')}",
                        pytrace=False)
        if os.environ.get("SHOW"):
            print(f"$ {command}\n{said[-1]}")
        if "kill -INT" in command:
            assert self.runner.process.wait(30) == 0, self.runner.said()
            self.runner.process = None

    def end(self):
        if self.runner.process is not None:
            self.runner.stop(signal.SIGTERM)


@pytest.fixture
def drill(tmp_path, binary):
    one = Drill(tmp_path)
    yield one
    one.end()


def test_what_is_missing_is_found():
    assert missing(["a 17 ms", "b  2"], "a 3 ms\nx\nb 2\n") is None
    assert missing(["b 2", "a 17 ms"], "a 3 ms\nx\nb 2\n") == "a 17 ms"
    assert missing(["b 1"], "b 2") == "b 1"


@pytest.mark.parametrize("heading", drills())
@pytest.mark.bound(120)
def test_drill(drill, heading):
    steps = drills()[heading]
    assert sum(len(wanted) for _, wanted in steps) > 2
    for command, wanted in steps:
        drill.step(command, wanted)
