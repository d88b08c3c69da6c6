"""The process itself: as whom it runs, what it may do, and what becomes of it when its data
directory is taken away."""

# Shows attack-process.

import os
import pwd
import re
import shutil
import signal
import stat
import subprocess

import pytest

from cluster import FAST
from node import take
from wait import ran_s

EXIT_CONFIG = 64
EXIT_DATA = 65
GONE_S = 1.0  # a data directory that was deleted is noticed in this time
USER = "nobody"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def lone(make_cluster):
    """A node that is a cluster by itself; not started."""
    return make_cluster(1, FAST, start=False).nodes[0]


def refuses(node, code, said):
    """It ends at once, and says why."""
    node.expect_log("level=error")
    node.start()
    assert node.wait_exit(10) == code, node.log()
    assert re.search(said, node.log()), node.log()


def status_of(node):
    """/proc/PID/status as a dict."""
    with open(f"/proc/{node.process.pid}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file)


# --- the data directory ---


@pytest.mark.parametrize("name", ["lock", "made", "db", "db/data.mdb"])
def test_links_in_the_data_directory_are_not_followed(lone, tmp_path, name):
    lone.start().wait_ready()
    lone.stop()
    path = os.path.join(lone.data_dir, name)
    aside = tmp_path / "aside"
    os.rename(path, aside)
    os.symlink(aside, path)
    before = aside.stat().st_mtime_ns
    refuses(lone, EXIT_DATA, f"{name} is a symbolic link, not a")
    assert aside.stat().st_mtime_ns == before


def test_lock_that_leads_elsewhere(lone, tmp_path):
    """A directory that others may write to, with a lock that points at a file of leafd's user: it
    is neither emptied nor written to."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.mkdir(lone.data_dir, 0o700)
    os.symlink(victim, os.path.join(lone.data_dir, "lock"))
    refuses(lone, EXIT_DATA, "lock is a symbolic link")
    os.chmod(lone.data_dir, 0o777)
    refuses(lone, EXIT_DATA, "has mode 0777")
    lone.settings["data-loose-mode"] = "true"
    refuses(lone, EXIT_DATA, "lock is a symbolic link")
    assert victim.read_text() == "precious"


@pytest.mark.quiet
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_data_directory_that_is_gone_is_noticed(make_cluster, tag, how):
    """Within a second, with a line and an exit code after which no supervisor starts it again; the
    others serve on."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    node.expect_log("the data directory is gone")
    node.leaving()
    if how == "removed":
        shutil.rmtree(node.data_dir)
    else:
        os.rename(node.data_dir, node.data_dir + ".aside")
        if how == "replaced":
            shutil.copytree(node.data_dir + ".aside", node.data_dir)
    began = ran_s()
    code = node.wait_exit(10)
    took_s = ran_s() - began
    assert code == EXIT_DATA, node.log_tail()
    assert f'dir="{node.data_dir}"' in node.log() and "deleted or moved away" in node.log()
    assert took_s < GONE_S, took_s
    for other in cluster.others(node):
        assert take(other, tag)


# --- as whom ---


@as_root
def test_root_is_refused(lone):
    lone.settings["user"] = None
    refuses(lone, EXIT_CONFIG,
            "leafd does not run as root: start it as a user of its own, or set user")
    assert not os.path.exists(lone.data_dir)


@as_root
def test_root_becomes_a_user(make_cluster, tag):
    """For good, with nothing of root's; its directory is made for it. It serves, reloads and stops
    as any other."""
    cluster = make_cluster(start=False)
    user = pwd.getpwnam(USER)
    for path in (cluster.directory, *[node.directory for node in cluster.nodes]):
        os.chmod(path, 0o711)
    os.chown(cluster.secret_file, user.pw_uid, -1)
    with_parents_open(cluster.directory)
    for node in cluster.nodes:
        node.settings.update({"user": USER})
        node.start()
    for node in cluster.nodes:
        node.wait_ready()
        status = status_of(node)
        assert status["Uid"].split() == [str(user.pw_uid)] * 4
        assert status["Gid"].split() == [str(user.pw_gid)] * 4
        assert status["Groups"].split() in ([], [str(user.pw_gid)])
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1"
        owner = os.stat(node.data_dir)
        assert owner.st_uid == user.pw_uid and stat.S_IMODE(owner.st_mode) == 0o700
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    last = take(node, tag)
    node.process.send_signal(signal.SIGHUP)
    node.wait_log('msg="reloaded" changed=nothing')
    node.stop()
    node.start().wait_ready()
    assert take(node, tag) > last


def with_parents_open(path):
    """pytest's directories are its user's alone: let others pass through, not read."""
    while path not in ("/", "/tmp"):
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o011)
        path = os.path.dirname(path)


@as_root
def test_what_the_user_cannot_use_is_named(lone):
    """A file that SIGHUP could not read again, a directory that is root's, a name that is
    nobody's."""
    with_parents_open(str(lone.directory))
    lone.settings.update({"user": USER})
    refuses(lone, EXIT_CONFIG, "cluster.secret-file .*: user nobody cannot read it")
    os.chown(lone.settings["cluster-secret-file"], pwd.getpwnam(USER).pw_uid, -1)
    shutil.rmtree(lone.data_dir)
    os.mkdir(lone.data_dir, 0o700)
    refuses(lone, EXIT_DATA, "cannot|belongs to user 0")
    lone.settings["user"] = "no-such-user-here"
    refuses(lone, EXIT_CONFIG, "user = no-such-user-here: there is no such user")


def test_check_config_knows_the_users(lone):
    """Before the node is started, and whoever asks: the answer is the start's, as root."""
    said = "there is no such user"
    lone.settings["user"] = "no-such-user-here"
    told = subprocess.run([*lone.command_line(), "--check-config"], capture_output=True, text=True,
                          check=False, timeout=30)
    assert told.returncode == EXIT_CONFIG and said in told.stderr, told


@as_root
def test_only_root_becomes_another(lone, binary):
    """A unit that names the user, too, starts leafd as that user already."""
    with_parents_open(str(lone.directory))
    lone.prefix = as_user()
    lone.settings.update({"user": "root", "cluster-secret-file": None})
    refuses(lone, EXIT_CONFIG, "user = root: only root can become another user")
    lone.settings["user"] = USER
    os.mkdir(lone.data_dir, 0o700)
    os.chown(lone.data_dir, pwd.getpwnam(USER).pw_uid, -1)
    lone.start().wait_ready()
    lone.stop()


def as_user():
    return ["setpriv", "--reuid", USER, "--regid", "nogroup", "--clear-groups"]


@as_root
@pytest.mark.parametrize("limit", [2, 4, 7, 8])
def test_as_many_threads_as_the_system_allows(lone, limit):
    """A node has all its threads from the start on, those that look names up too; or it does not
    start, and says why."""
    uid = 64321 + limit  # nobody else's: the limit is of all processes of a user
    with_parents_open(str(lone.directory))
    os.mkdir(lone.data_dir, 0o700)
    os.chown(lone.data_dir, uid, -1)
    lone.settings.update({"user": None, "cluster-secret-file": None})
    lone.prefix = ["setpriv", f"--reuid={uid}", "prlimit", f"--nproc={limit}"]
    if limit < 8:
        refuses(lone, 70, f"allowed={limit - 1} needed=7 exit_code=70")
    else:
        lone.start().wait_ready()
        assert len(os.listdir(f"/proc/{lone.process.pid}/task")) == limit
        lone.stop()


def can_be_looked_into(node):
    """By another process of its user."""
    done = subprocess.run([*as_user(), "cat", f"/proc/{node.process.pid}/environ"],
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0 or b"Permission denied" in done.stderr, done
    return done.returncode == 0


@as_root
def test_memory_is_its_own(lone):
    """No debugger of the same user, and no core dump, unless the operator says so."""
    with_parents_open(str(lone.directory))
    os.chown(lone.settings["cluster-secret-file"], pwd.getpwnam(USER).pw_uid, -1)
    lone.settings.update({"user": USER})
    for sandbox in ("off", "debug"):
        lone.settings["sandbox"] = sandbox
        lone.start().wait_ready()
        assert status_of(lone)["NoNewPrivs"] == "1"
        assert can_be_looked_into(lone) == (sandbox == "debug")
        lone.stop()


# --- files that are none ---


def test_fifo_as_config_is_refused_at_once(binary, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    for arguments in (["--config", fifo],
                      ["--node-id=1", "--cluster-members=1=127.0.0.1:7081",
                       "--cluster-secret-file", fifo]):  # fmt: skip
        done = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=30,
                              check=False)  # fmt: skip
        assert done.returncode == EXIT_CONFIG
        assert "fifo: is not a regular file" in done.stderr


# --- the sandbox ---


def filters(node):
    """How many seccomp filters hold for each thread."""
    counts = []
    for task in os.listdir(f"/proc/{node.process.pid}/task"):
        with open(f"/proc/{node.process.pid}/task/{task}/status", encoding="utf-8") as file:
            found = re.search(r"^Seccomp_filters:\t(\d+)$", file.read(), re.MULTILINE)
            counts.append(int(found[1]))
    return counts


def has_sandbox(node):
    """Not in a build with a sanitizer, nor on a kernel without it."""
    return 'msg="a part of the sandbox is off"' not in node.log()


def test_sandbox_holds_for_every_thread(lone, tag):
    """Also for those that come later: the first lookup of a name starts some."""
    lone.settings["cluster-members"] = f"1=localhost:{lone.peer_port}"
    lone.start().wait_ready()
    if not has_sandbox(lone):
        pytest.skip("there is no sandbox in this build or on this kernel")
    assert re.search(r"landlock=\d+ writable=", lone.log()) and "seccomp=yes" in lone.log()
    assert set(filters(lone)) == {2}
    lone.stop()
    assert "level=error" not in lone.log()


def test_sandbox_off(lone):
    lone.settings["sandbox"] = "off"
    lone.start().wait_ready()
    assert 'msg="there is no sandbox" sandbox=off' in lone.log()
    assert set(filters(lone)) == {0}
    lone.stop()


def test_sandbox_on_starts_only_with_it(lone):
    """Where some part of it is missing, the node does not start without."""
    lone.start().wait_ready()
    there = has_sandbox(lone)
    lone.stop()
    lone.settings["sandbox"] = "on"
    if there:
        lone.start().wait_ready()
        assert set(filters(lone)) == {2}
        lone.stop()
    else:
        refuses(lone, EXIT_CONFIG, "there is no sandbox, and sandbox = on")


def test_files_are_read_again_in_the_sandbox(lone, tmp_path):
    """What SIGHUP reads may have been put in the place of the old file."""
    path = tmp_path / "conf" / "leafd.conf"
    path.parent.mkdir()
    path.write_text("log.level = info\n")
    lone.settings["config"] = path
    lone.start().wait_ready()
    new = path.with_name("new")
    new.write_text("log.level = warn\n")
    new.rename(path)
    lone.process.send_signal(signal.SIGHUP)
    lone.wait_log("log.level = warn")
    lone.stop()


def test_names_are_looked_up_in_the_sandbox(make_cluster, tag):
    """Peers by name: the resolver reads its files, loads what it needs, and asks, in the sandbox;
    also after one of them was away."""
    cluster = make_cluster(start=False)
    members = ",".join(f"{node.id}=localhost:{node.peer_port}" for node in cluster.nodes)
    for node in cluster.nodes:
        node.settings["cluster-members"] = members
        node.start()
    for node in cluster.nodes:
        node.wait_ready()
    cluster.create_tag(tag)
    gone = cluster.followers()[0]
    gone.kill9()
    gone.start().wait_ready()
    for node in cluster.nodes:
        assert take(node, tag)
        assert not re.search("cannot resolve|name_error", node.log())


@as_root
def test_names_are_looked_up_in_the_sandbox_alone(lone, tmp_path):
    """The threads that look names up can read no more than the others."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost elsewhere.test\n")
    cover = 'cp -a /etc "$0/etc" && mount --bind "$0/etc" /etc && ln -sf "$1" /etc/hosts'
    lone.prefix = ["unshare", "-m", "sh", "-c", f'{cover} && shift && exec "$@"', lone.directory,
                   str(tmp_path / "hosts")]
    lone.members += ",2=elsewhere.test:1"
    lone.settings["peer-listen"] = lone.peer_address
    for sandbox in ("off", "auto"):
        lone.settings["sandbox"] = sandbox
        start = len(lone.log())
        lone.start()
        lone.wait_log('no link to peer" peer=2 ', start=start)
        if sandbox == "off" or "landlock=" in lone.log():
            assert ("connection refused" in lone.log()[start:]) == (sandbox == "off"), lone.log()
        lone.stop()
        shutil.rmtree(os.path.join(lone.directory, "etc"))
