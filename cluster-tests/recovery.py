"""leafd restore and leafd recover as an operator runs them, and clusters that begin with what they
made."""

import re
import struct
import subprocess

from node import leafd_path
from wait import wait_until

TOOL_S = 60
# Of a backup: the magic text and the head of its first block, up to the digest of all rows
# (src/id/codec/backup_file.c).
MAGIC = b"leafd backup\r\n\032\n"
HEAD = struct.Struct("<IIQHHQQQQQQ")


def tool(*arguments, typed="", prefix=()):
    """Run a subcommand, with this in front (a clock of its own); the finished process, with its
    texts."""
    return subprocess.run(
        [*prefix, leafd_path(), *map(str, arguments)],
        input=typed,
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )


# Ways in which nothing can be said: full, a reader that went away, closed from the start; and with
# messages that are heard, or not.
UNHEARD = [f"{out}{err}" for out in (">/dev/full", "> >(exec >&-)", ">&-")
           for err in ("", " 2>/dev/full", " 2>&-")]


def unheard(output):
    """In front of a command: one of UNHEARD."""
    # The reader is gone before the command begins.
    return ["bash", "-c", f'exec {output}; wait $!; exec "$@"', "bash"]


def done(*arguments, typed="", prefix=()):
    """The same, which must succeed; what it says."""
    run = tool(*arguments, typed=typed, prefix=prefix)
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


def state_of(node):
    """(index, digest of all rows at that index), as the node has them."""
    answer = node.get("/api/backup", timeout=60)
    assert answer.status == 200, f"{node}: {answer}"
    assert answer.body.startswith(MAGIC)
    head = HEAD.unpack_from(answer.body, len(MAGIC))
    assert head[0] == 1, "the first block is not HEAD"
    return head[8], head[10]


def check_same_state(nodes, timeout=30.0):
    """All nodes have the same rows at the same index, for as many indices as it takes to find one
    that all had. For nodes whose load has ended."""
    found = {}

    def same():
        for node in nodes:
            index, digest = state_of(node)
            found.setdefault(index, {})[node.id] = digest
        for index, digests in found.items():
            if len(set(digests.values())) > 1:
                raise RuntimeError(f"the states differ at index {index}: {digests}")
        return any(len(digests) == len(nodes) for digests in found.values())

    wait_until(same, timeout, "an index that all nodes had")


def tags_of(said):
    """{tag: (continues from, was)} of what a restore said."""
    found = re.findall(r'^  "(.*)" continues from (\d+) \(was (\d+),', said, re.MULTILINE)
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
