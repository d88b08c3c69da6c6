"""What the documentation names exists: tests, metrics, exit codes, log lines, error codes, links.

docs/failure-model.md lives by this: a promise whose test is gone is no promise.
"""

import glob
import os
import re

import pytest

from node import ROOT

PAGES = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))) + [os.path.join(ROOT, "README.md")]
FAILURE_MODEL = os.path.join(ROOT, "docs", "failure-model.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(*patterns):
    """The text of all files that match, from the root."""
    paths = {path for p in patterns for path in glob.glob(os.path.join(ROOT, p), recursive=True)}
    assert paths, patterns
    return "\n".join(read(path) for path in sorted(paths))


def known_tests():
    """Names of tests and of their files."""
    in_c = sources("src/**/tests/test_*.c", "raft/**/tests/test_*.c", "storage/**/tests/test_*.c",
                   "http/**/tests/test_*.c")
    in_python = sources("cluster-tests/test_*.py")
    names = set(re.findall(r"^static void (test_\w+)\(", in_c, re.M))
    names |= set(re.findall(r"^def (test_\w+)\(", in_python, re.M))
    for folder, _, files in os.walk(ROOT):
        if "/build" not in folder:
            names |= {name for name in files if re.fullmatch(r"test_\w+\.(c|py)", name)}
    return names


def in_code(text):
    """What stands between backticks, blocks of code left out."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


@pytest.mark.parametrize("page", PAGES, ids=os.path.basename)
def test_tests_that_are_named_exist(page):
    named = {word for word in in_code(read(page)) if re.fullmatch(r"test_\w+(\.c|\.py)?", word)}
    missing = named - known_tests()
    assert not missing, f"{page} names tests that do not exist: {sorted(missing)}"


def test_the_failure_model_names_tests_for_each_promise():
    text = read(FAILURE_MODEL)
    parts = re.split(r"^### (P\d)\. ", text, flags=re.M)[1:]
    promises = dict(zip(parts[::2], parts[1::2]))
    assert sorted(promises) == [f"P{number}" for number in range(1, 9)]
    design = read(os.path.join(ROOT, "docs", "design.md"))
    assert sorted(re.findall(r"^\| (P\d) \|", design, re.M)) == sorted(promises)
    for promise, part in promises.items():
        if promise != "P2":  # which every test under load checks
            assert re.search(r"`test_\w+`", part.split("\n## ")[0]), promise


def test_every_lesson_has_a_test():
    table = read(FAILURE_MODEL).split("## Lessons of others")[1]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    for row in rows:
        assert re.search(r"`test_\w+`", row), row


def test_what_the_failure_model_shows_exists():
    """Metrics, exit codes, lines of the log and codes of errors."""
    text = read(FAILURE_MODEL)
    words = in_code(text)
    code = sources("src/**/*.[ch]", "raft/**/*.[ch]", "http/**/*.[ch]", "storage/**/*.[ch]")
    metrics = {m for word in words for m in re.findall(r"^leafd_\w+", word)}
    assert metrics and all(re.search(rf'"{metric}["{{]', code) for metric in metrics), metrics
    exits = set(re.findall(r"exit codes? (\d+)", text))
    in_header = set(re.findall(r"= (\d+)", sources("src/app/exit_code.h")))
    assert exits and exits <= in_header, exits - in_header
    lines = {word for word in words if re.fullmatch(r'"[a-z][^":]+"', word)}
    assert lines
    missing = {line for line in lines if line not in code}
    assert not missing, f"no such line: {missing}"
    codes = set(re.findall(r"\b(?:4\d\d|50[37])\s+`(\w+)`", text))
    missing = {word for word in codes if f'"{word}"' not in code}
    assert codes and not missing, f"no such code: {missing}"


def test_every_exit_code_is_explained():
    page = read(os.path.join(ROOT, "docs", "configuration.md"))
    explained = re.findall(r"^\| (\d+) \|", page.split("## Exit codes")[1], re.M)
    in_header = re.findall(r"= (\d+)", sources("src/app/exit_code.h"))
    assert explained == in_header


@pytest.mark.parametrize("page", PAGES, ids=os.path.basename)
def test_links_lead_somewhere(page):
    """Files that are linked to exist, and headings in them."""
    text = re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.join(os.path.dirname(page), path) if path else page
        assert os.path.exists(path), f"{page} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", read(path), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{page} links to {target}: {sorted(slugs)}"
