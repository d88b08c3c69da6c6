"""leafd restore and leafd recover as an operator runs them, and clusters that begin with what they
made."""

import re
import subprocess

from node import leafd_path

TOOL_S = 60


def tool(*arguments, typed=""):
    """Run a subcommand; the finished process, with its texts."""
    return subprocess.run(
        [leafd_path(), *map(str, arguments)],
        input=typed,
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )


def done(*arguments, typed=""):
    """The same, which must succeed; what it says."""
    run = tool(*arguments, typed=typed)
    assert run.returncode == 0, f"{arguments}: {run.returncode}\n{run.stdout}\n{run.stderr}"
    assert run.stderr == "", run.stderr
    return run.stdout


def refused(code, *arguments, typed=""):
    """The same, which must refuse with this exit code; the one line that says why."""
    run = tool(*arguments, typed=typed)
    assert run.returncode == code, f"{arguments}: {run.returncode}\n{run.stdout}\n{run.stderr}"
    assert run.stderr.startswith("leafd re") and run.stderr.count("\n") == 1, run.stderr
    return run.stderr


def take_backup(node, path, options=""):
    """GET /api/backup into a file; the answer."""
    answer = node.get(f"/api/backup{options}", timeout=60)
    if answer.status == 200:
        with open(path, "wb") as file:
            file.write(answer.body)
    return answer


def tags_of(said):
    """{tag: (goes on from, was)} of what a restore said."""
    found = re.findall(r'^  "(.*)" goes on from (\d+) \(was (\d+),', said, re.MULTILINE)
    return {name: (int(goes_on), int(was)) for name, goes_on, was in found}


def place(node):
    """The arguments that make the data of this node."""
    return ["--node-id", node.id, "--peer-address", node.peer_address, "--data-dir", node.data_dir]


def join_the_rest(cluster, first):
    """The first node runs; the others start with empty directories, and join it."""
    first.start().wait_ready()
    for node in cluster.nodes:
        if node is not first:
            node.members = None
            node.settings["join"] = first.peer_address
            node.settings["peer-listen"] = node.peer_address
            node.start().wait_ready()
    cluster.wait_applied()
