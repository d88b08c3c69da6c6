"""The drills of docs/drills.md, the screens of docs/leafctl.md and the README, on real nodes; the
examples of docs/operations.md.

A drill is a section with a block of commands (behind "$ ") and what they print, that begins with
`make run`: scripts/run-cluster here, on free ports and in a directory of the test's own. Each line
that the page shows has to come, in that order; other lines may stand between them. Numbers that no
run repeats (times, sizes, ids, terms) are not compared; ids of nodes and counts are. What looks
without changing anything is asked again until it shows what the page says.
"""

import hashlib
import os
import re
import shutil
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


def blocks_of(heading):
    """The blocks of code of a section of docs/operations.md, without its subsections."""
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        part = re.split(rf"^##+ {heading}$", file.read(), flags=re.M)[1]
    return re.findall(r"^ *```\w*\n(.*?)^ *```$", re.split(r"^##", part, flags=re.M)[0],
                      flags=re.M | re.S)


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


def examples(heading):
    """Commands of docs/operations.md and the lines that they print, as far as all runs print them:
    how fast a tag grew is known after a minute."""
    for block in blocks_of(heading):
        command, *lines = block.replace("\\\n", "").splitlines()
        if command.startswith("$ leaf"):
            for one in re.split(r"^\$ ", "\n".join([command[2:], *lines]), flags=re.M):
                command, *said = one.splitlines()
                yield command, [re.sub(r"; grew by [^)]*|(to continue: ).*", r"\1", line)
                                for line in said if line != "..."]


@pytest.mark.bound(120)
def test_a_backup_a_restore_and_a_recovery_as_the_operator_sees_them(drill):
    drill.make_run("make run SETTINGS=cluster.id=shop")
    drill.step("leafctl tags delete leaf-segment-test", [])
    drill.step("leafctl tags put order --step 1000", [])
    drill.step("leafctl tags put invoice --mode strict", [])
    drill.step("leafctl next invoice -n 12", ["1", "12"])
    drill.step("leafctl next order -n 4000", [])
    backup, restore, recover = (list(examples(heading)) for heading in
                                ("Backups", "Restore a backup", "The majority is lost"))
    assert [len(steps) for steps in (backup, restore, recover)] == [2, 1, 1]
    for command, wanted in backup:
        drill.step(command, wanted)
    drill.step("kill -INT $(cat drill/lock)", [])
    uid = re.search(r"uid (\S+?)\)", drill.shell(backup[1][0]))[1]
    for command, wanted in restore + recover:
        command = command.replace("srv/node1", "drill/restored").replace("srv/", "drill/")
        said = drill.shell(f"echo {uid} | {command}")
        said = re.sub(r"; grew by [^)]*|(to continue: ).*", r"\1", said)
        assert len(wanted) > 3 and missing(wanted, said) is None, (missing(wanted, said), said)


def test_the_certificate_and_the_tokens_of_the_page_are_accepted(tmp_path, binary):
    (recipe,) = [block for block in blocks_of("TLS") if "openssl" in block]
    made = "\n".join(line for line in recipe.splitlines() if not line.startswith("curl"))
    subprocess.run(["bash", "-ec", made], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "tls").mkdir()
    for name in ("tls.crt", "tls.key"):
        shutil.move(tmp_path / name, tmp_path / "tls" / name)
    printed, tokens = blocks_of("Tokens")[:2]
    tokens = re.sub(r"sha256:(\w{4})\.\.\.", lambda found: "sha256:" + hashlib.sha256(
        found[1].encode()).hexdigest(), tokens) + printed.splitlines()[2] + "\n"
    assert len(tokens.splitlines()) == 6 and "..." not in tokens
    file = tmp_path / "tokens"
    file.write_text(tokens, encoding="utf-8")
    file.chmod(0o600)
    done = subprocess.run(
        [binary, "--node-id=1", "--cluster-members=1=127.0.0.1:7081", "--user=root",
         "--cluster-bootstrap=single", f"--http-tls-dir={tmp_path / 'tls'}",
         f"--auth-tokens-file={file}", "--check-config"],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert printed.startswith("$ leafd --new-token\n")
    said = subprocess.run([binary, "--new-token"], capture_output=True, text=True,
                          check=True).stdout.splitlines()
    shown = printed.splitlines()[1:]
    assert [len(line) for line in said] == [len(line) for line in shown]
    assert hashlib.sha256(shown[0].encode()).hexdigest() in shown[1]
