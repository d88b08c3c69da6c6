"""Manual pages and completions, as packages take them: made without a complaint, and whole."""

import os
import re
import shutil
import subprocess

import pexpect  # Debian's python3-pexpect
import pytest

from leafctl import leafctl_path
from node import ROOT, leafd_path

COMPLETIONS = os.path.join(ROOT, "packaging", "completions")
PAGES = ["leafctl.1", "leafd.8", "leafd.conf.5", "libleafd.3"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Made by scripts/generate with the programs that are tested."""
    out = tmp_path_factory.mktemp("man")
    built = tmp_path_factory.mktemp("built")
    (built / "leafd").symlink_to(os.path.abspath(leafd_path()))
    (built / "leafctl").symlink_to(os.path.abspath(leafctl_path()))
    env = {**os.environ, "BUILD": os.path.dirname(built), "FLAVOUR": os.path.basename(built)}
    done = subprocess.run([os.path.join(ROOT, "scripts", "generate"), "man", out], env=env,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return out


def show(path):
    env = {**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MANROFFOPT": "-ww"}
    return subprocess.run(["man", "-l", "--warnings", "--no-hyphenation", path], env=env,
                          capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shown_without_a_warning(pages, name):
    done = show(str(pages / name))
    assert done.returncode == 0 and done.stderr == "", done
    assert len(done.stdout.splitlines()) > 50
    assert "@" not in re.sub(r"\S+@\S+", "", done.stdout)


def test_the_pages_have_everything(pages):
    table = subprocess.run([leafd_path(), "--print-config-doc"], capture_output=True, text=True,
                           check=True).stdout
    names = re.findall(r"^\| `([\w.-]+)` \|", table, re.M)
    text = subprocess.run([leafd_path(), "--print-config-example"], capture_output=True, text=True,
                          check=True).stdout
    assert names == re.findall(r"^#([\w.-]+) =", text, re.M)
    text = show(str(pages / "leafd.conf.5")).stdout
    assert len(names) > 40
    assert not [name for name in names if not re.search(rf"^ +{re.escape(name)} = ", text, re.M)]
    help_text = subprocess.run([leafctl_path(), "--help"], capture_output=True, text=True,
                               check=True).stdout
    text = show(str(pages / "leafctl.1")).stdout
    for family in set(re.findall(r"^  ([a-z]+)", help_text.split("settings,")[0], re.M)):
        assert re.search(rf"^ +{family}\b", text, re.M), family
    assert re.search(r"^ +76\n +the cluster refused", text, re.M)
    text = show(str(pages / "leafd.8")).stdout
    assert "SIGHUP" in text and "--check-config" in text and re.search(r"^ +78\n", text, re.M)


def complete(line):
    """What bash offers for the last word of a command line."""
    words = line.split(" ")
    env = {**os.environ, "PATH": os.path.dirname(leafctl_path()) + ":" + os.environ["PATH"]}
    script = f"""source packaging/completions/leafctl.bash
        COMP_WORDS=({' '.join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _leafctl; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, cwd=ROOT,
                          env=env, timeout=30, check=False)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout.split()


def test_completion_in_bash():
    assert {"status", "tags", "members", "backup"} <= set(complete("leafctl "))
    assert complete("leafctl sta") == ["status"]
    assert complete("leafctl tags ") == ["list", "get", "put", "pause", "resume", "delete"]
    assert complete("leafctl --server a:1 --json tags g") == ["get"]
    assert complete("leafctl --server=a:1 tags g") == ["get"]
    assert complete("leafctl tags put x --max-") == ["--max-id", "--max-step"]
    assert "--token-file" in complete("leafctl next x --")
    assert complete("leafctl next x -n ") == []
    assert complete("leafctl --ca README.m") == ["README.md"]
    assert complete("leafctl backup README.m") == ["README.md"]
    assert complete("leafctl token new --out README.m") == ["README.md"]
    assert complete("leafctl nothing ") == []
    assert complete("leafctl - ") and complete("leafctl -") and complete("leafctl next -- ") == []
    assert "--ranges" in complete("leafctl next -") and "--ranges" not in complete("leafctl top -")


def test_completion_with_descriptions():
    """As fish shows them: each command and option with its line of the help."""
    lines = subprocess.run([leafctl_path(), "--complete", "tags", "put", "x", "-"], text=True,
                           capture_output=True, check=True).stdout.splitlines()
    offered = dict(line.split("\t") for line in lines)
    assert offered["--max-step"] == "the largest segment" and "PEM" in offered["--ca"]
    assert subprocess.run([leafctl_path(), "--complete"], capture_output=True, text=True,
                          check=True).stdout.startswith("status\t")


def test_completion_by_the_tab_key(tmp_path):
    """A real shell on a terminal, as bash-completion loads the file."""
    folder = tmp_path / "bash-completion" / "completions"
    folder.mkdir(parents=True)
    shutil.copy(os.path.join(COMPLETIONS, "leafctl.bash"), folder / "leafctl")
    env = {"PATH": f"{os.path.dirname(leafctl_path())}:/usr/bin:/bin", "TERM": "dumb",
           "XDG_DATA_DIRS": str(tmp_path), "BASH_COMPLETION_USER_DIR": str(tmp_path), "PS1": "$ ",
           "HOME": str(tmp_path)}
    shell = pexpect.spawn("bash", ["--norc", "--noprofile"], env=env, encoding="utf-8", timeout=30)
    try:
        shell.sendline("source /usr/share/bash-completion/bash_completion; echo rea''dy")
        shell.expect("ready")
        shell.send("leafctl members rep\t")
        shell.expect("members replace")
    finally:
        shell.close(force=True)


@pytest.mark.parametrize("shell, name", [("bash", "leafctl.bash"), ("zsh", "_leafctl"),
                                         ("fish", "leafctl.fish")])
def test_completions_are_scripts(shell, name):
    path = os.path.join(COMPLETIONS, name)
    with open(path, encoding="utf-8") as file:
        assert " --complete " in file.read()
    try:
        done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"no {shell} here")
    assert done.returncode == 0, done
