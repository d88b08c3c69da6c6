"""What the documents name exists: tests, metrics, exit codes, log lines, error codes, links, files.
Their words are those of the glossary, and NOTICE names what is linked.

scripts/promises sees that each row of docs/promises.md has a test.
"""

import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import shlex
import subprocess

import pytest

from node import ROOT

DOCS = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
PAGES = DOCS + [os.path.join(ROOT, name) for name in
                ("README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
                 "cluster-tests/README.md")]
PICTURES = sorted(glob.glob(os.path.join(ROOT, "docs", "*.svg")))
FAILURE_MODEL = os.path.join(ROOT, "docs", "failure-model.md")
PROMISES = os.path.join(ROOT, "docs", "promises.md")
GLOSSARY = os.path.join(ROOT, "docs", "glossary.md")
TOP = "src|raft|http|storage|scripts|cluster-tests|docs"

# Words that have another name now. Each is a pattern.
OLD_WORDS = [r"timekeeper", r"grantees?", r"gatherer", r"peer[_ ]memory", r"wish(es)?\b", r"memo\b",
             r"guests?", r"(earlier|later|last|two) (life|lives)", r"life of (a|the) node",
             r"\bpokes?\b", r"\bverbs?\b", r"\bthe own\b", r"\b(is|are|be) told\b",
             r"\bwarm(ed|ing)\b"]
# What the linker is given: its name in NOTICE.
LINKED = {"isal": "ISA-L", "xxhash": "xxHash", "lmdb": "LMDB", ":libraft.a": "C-Raft",
          "crypto": "OpenSSL", "ssl": "OpenSSL", "jansson": "jansson", "uv": "libuv",
          "seccomp": "libseccomp", "curl": "libcurl", "glib-2.0": "GLib"}


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
                   "http/**/tests/test_*.c", "cluster-tests/**/tests/test_*.c")
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


def test_each_promise_has_rows():
    """Those of the failure model, which stand once; scripts/promises sees that rows have tests."""
    promises = [f"P{number}" for number in range(1, 10)]
    assert re.findall(r"^\| (P\d) \|", read(FAILURE_MODEL), re.M) == promises
    for page in PAGES:
        assert page == FAILURE_MODEL or not re.search(r"^\| P\d \|", read(page), re.M), page
    rows = re.findall(r"^\| (P\d|backup|attack|lesson)-", read(PROMISES), re.M)
    assert set(rows) == {*promises, "backup", "attack", "lesson"} - {"P2"}  # all show that
    assert rows.count("lesson") > 25


@pytest.mark.parametrize("page", PAGES, ids=os.path.basename)
def test_names_of_tests_stand_in_one_table(page):
    named = {word for word in in_code(read(page)) if re.fullmatch(r"test_\w+", word)}
    assert page == PROMISES or not named, f"{page}: belongs to docs/promises.md: {sorted(named)}"


def test_what_the_failure_model_shows_exists():
    """Metrics, exit codes, lines of the log and codes of errors."""
    text = read(FAILURE_MODEL)
    words = in_code(text)
    code = sources("src/**/*.[ch]", "raft/**/*.[ch]", "http/**/*.[ch]", "storage/**/*.[ch]")
    metrics = {m for word in words for m in re.findall(r"^leafd_\w+", word)}
    assert metrics and all(re.search(rf'"{metric}["{{]', code) for metric in metrics), metrics
    exits = set(re.findall(r"exit codes? (\d+)", text))
    in_header = set(re.findall(r"= (\d+)", sources("src/node/report.h")))
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
    in_header = re.findall(r"= (\d+)", sources("src/node/report.h"))
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


def test_links_of_what_is_installed_lead_somewhere():
    """`make install` takes along what its pages link to."""
    places = {**os.environ, "prefix": "/usr", "docdir": "/docs"}
    listed = subprocess.run(["scripts/install-files", "list"], cwd=ROOT, env=places, check=True,
                            capture_output=True, text=True).stdout.split()
    files = {path[len("/docs/"):] for path in listed if path.startswith("/docs/")}
    assert "README.md" in files and "docs/operations.md" in files
    folders = set()
    for path in files:
        while path := os.path.dirname(path):
            folders.add(path)
    for page in sorted(file for file in files if file.endswith(".md")):
        text = re.sub(r"^```.*?^```", "", read(os.path.join(ROOT, page)), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:|#", target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), target.split("#")[0]))
            assert path in files | folders, f"{page} links to {target}, which is not installed"


def requests_shown():
    """(page, method, listener or None, path) of each curl with an address of a node. Ports 8080 and
    9080 are the two listeners; `make run` has one, at 8081 and so on."""
    for page in PAGES:
        for line in re.findall(r"^[ $]*(curl [^\n#]*)", read(page).replace("\\\n", " "), re.M):
            words = shlex.split(line)
            for url in words:
                found = re.fullmatch(r"https?://[\w.-]+:(\d+)(/[^?]*)(\?.*)?", url)
                if found:
                    method = (words[words.index("-X") + 1].lower() if "-X" in words
                              else "post" if "--json" in words else "get")
                    yield (os.path.basename(page), method,
                           {"8080": "ids", "9080": "admin"}.get(found.group(1)), found.group(2))


def test_requests_go_to_the_listener_that_serves_them():
    """Each curl of the documents, by GET /openapi.json."""
    paths = json.loads(read(os.path.join(ROOT, "http", "api", "openapi.json")))["paths"]
    shown = list(requests_shown())
    assert len(shown) > 30 and {listener for _, _, listener, _ in shown} == {"ids", "admin", None}
    for page, method, listener, path in shown:
        found = [item[method] for template, item in paths.items() if method in item
                 and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)]
        assert found, f"{page}: no route for {method} {path}"
        assert listener is None or listener in found[0]["x-listeners"], (
            f"{page}: {method} {path} is served at {found[0]['x-listeners']}")


def files_of_tree():
    """All files, from the root, but for what was built or is not the project's."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders
                      if not name.startswith((".", "build", "__pycache__")) and name != "data"]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def missing_paths(words):
    """Those of these words that look like a file or folder of the tree and are none."""
    files = list(files_of_tree())
    names = {os.path.basename(path) for path in files}
    missing = set()
    for word in words:
        if re.fullmatch(rf"({TOP})/[\w./*-]*", word):
            if not glob.glob(os.path.join(ROOT, word)):
                missing.add(word)
        elif re.fullmatch(r"[\w-]+\.(c|h|py|md|svg)", word) and word not in names:
            missing.add(word)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=os.path.basename)
def test_files_that_are_named_exist(page):
    missing = missing_paths(in_code(read(page)))
    assert not missing, f"{page} names files that do not exist: {sorted(missing)}"


@pytest.mark.parametrize("picture", PICTURES, ids=os.path.basename)
def test_files_that_a_picture_names_exist(picture):
    missing = missing_paths(re.findall(r">([\w./-]+)<", read(picture)))
    assert not missing, f"{picture} names files that do not exist: {sorted(missing)}"


def test_paths_that_do_not_exist_are_found():
    assert missing_paths(["raft/core/nothing.c", "nothing.h", "docs/nothing/"]) == {
        "raft/core/nothing.c", "nothing.h", "docs/nothing/"}
    assert not missing_paths(["docs/design.md", "raft/", "test_docs.py", "a.b", "src/id"])


def glossary():
    """{word: meaning}; what stands in brackets says of which thing."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]*\|$", read(GLOSSARY), re.M)
    return {word: meaning for word, meaning in rows if word != "word"}


def test_the_glossary_has_a_line_for_each_word():
    """Each word once; those that lines lean on have lines; code or documents use each."""
    words = {part.strip() for word in glossary()
             for part in re.sub(r"\([^)]*\)", "", word).split(",")}
    lines = re.findall(r"^\| (?!word )([^|]+) \|", read(GLOSSARY), re.M)
    assert len(lines) == len(set(lines)) and len(lines) > 40
    meanings = "\n".join(glossary().values())
    leant_on = {re.sub(r"(?<=[^s])s$", "", word.lower()).replace("entrie", "entry")
                for word in re.findall(r"(?<!\*)\*([^*\n]+)\*", meanings)}
    missing = leant_on - words
    assert not missing, f"the glossary leans on words that have no line: {sorted(missing)}"
    used = (sources("src/**/*.h", "raft/**/*.h", "http/**/*.h", "storage/**/*.h")
            + "".join(read(page) for page in PAGES if page != GLOSSARY)).lower()
    used = re.sub(r"[\s*_]+", " ", used)
    unused = {word for word in words if word.lower().replace("_", " ") not in used}
    assert not unused, f"nobody uses these words: {sorted(unused)}"


@pytest.mark.parametrize("page", PAGES, ids=os.path.basename)
def test_one_name_for_one_thing(page):
    text = " ".join(re.sub(r"^```.*?^```|`[^`\n]*`", "", read(page), flags=re.M | re.S).split())
    found = {match.group(0) for word in OLD_WORDS for match in re.finditer(word, text, re.I)}
    assert not found, f"{page} has words that docs/glossary.md names otherwise: {sorted(found)}"


@pytest.mark.parametrize("page", DOCS, ids=os.path.basename)
def test_a_page_begins_with_who_should_read_it(page):
    title, first = read(page).split("\n\n")[:2]
    begins = "写给" if page.endswith(".zh.md") else "For "
    assert re.fullmatch(r"# [^\n]+", title) and first.startswith(begins), f"{page}: {first[:60]}"


def numbers_of(text):
    """All that prose has in digits, in ones."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)]*\)|https?://\S+", "", text,
                   flags=re.M | re.S)
    units = {"": 1, "million": 10**6, "万": 10**4, "亿": 10**8}
    return {round(float(number.replace(",", "")) * units[unit], 3) for number, unit in
            re.findall(r"(\d[\d,]*(?:\.\d+)?) *(million|万|亿|)", prose)}


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".zh.md")],
                         ids=os.path.basename)
def test_a_translation_says_the_same(page):
    """Commands and what they print are those of the English page, which are run. Code, links and
    numbers are the same on both; tables that stand for each other have as many rows."""
    english = page.replace(".zh.md", ".md")
    blocks, codes, links, headings, rows, numbers = [], [], [], [], [], []
    for text in (read(page), read(english)):
        text = text.replace(".zh.md", ".md")
        blocks.append(re.findall(r"^ *```.*?^ *```", text, re.M | re.S))
        codes.append(set(in_code(re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))))
        # Headings of a translated page are its own.
        links.append({re.sub(r"(leaf\.md)#.*", r"\1", link)
                      for link in re.findall(r"\]\(([^)\s]+)\)", text)})
        numbers.append(numbers_of(text))
        headings.append(re.findall(r"^(#+) ", text, re.M))
        rows.append({name: len(re.findall(r"^\| ", part, re.M)) for name, part in
                     enumerate(re.split(r"^#+ ", text, flags=re.M)) if "Leaf | leafd |" in part})
    assert blocks[0] == blocks[1] and headings[0] == headings[1] and rows[0] == rows[1]
    own = {os.path.basename(english)}  # each links to the other
    assert codes[0] == codes[1], codes[0] ^ codes[1]
    assert links[0] | own == links[1] | own, links[0] ^ links[1]
    assert numbers[0] == numbers[1], numbers[0] ^ numbers[1]


def test_the_readme_leads_everywhere():
    """Each page is one click away, or two."""
    text = read(os.path.join(ROOT, "README.md"))
    for page in DOCS:
        assert f"(docs/{os.path.basename(page)}" in text, page
    for name in ("LICENSE", "NOTICE", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert f"({name})" in text and os.path.exists(os.path.join(ROOT, name)), name


def test_notice_names_what_is_linked():
    lines = re.findall(r"^LIBS_\w+\s*:= (.*)$", read(os.path.join(ROOT, "Makefile")), re.M)
    linked = {word for line in lines for word in re.findall(r"-l(\S+)", line)}
    linked.discard("m")  # the C library's
    assert linked == set(LINKED), linked ^ set(LINKED)
    notice = read(os.path.join(ROOT, "NOTICE"))
    assert not [name for name in LINKED.values() if name not in notice]
    check = read(os.path.join(ROOT, "scripts", "check-raft-version"))
    version = re.search(r"libraft-dev (0\.\d+\.\d+)", check).group(1)
    assert f"C-Raft {version}" in notice
    assert "Apache License" in read(os.path.join(ROOT, "LICENSE"))


# The manifest of each client library, and the name that a registry would have it by.
PACKAGES = {"go/go.mod": r"module leafd\.io/leafd$",
            "java/client/pom.xml": r"  <artifactId>leafd-client</artifactId>$",
            "node/package.json": r'  "name": "@leafd/client",$',
            "php/composer.json": r'    "name": "leafd/client",$',
            "python/pyproject.toml": r'name = "leafd-client"$',
            "rust/Cargo.toml": r'name = "leafd-client"$'}
FROM_A_REGISTRY = (r"\b(?:npm (?:install|i)|pip3? install|go (?:get|install)|cargo (?:add|install)"
                   r"|composer require|gem install)((?: [^\s`]+)+)")


@pytest.mark.parametrize("manifest", PACKAGES)
def test_libraries_have_a_name_of_their_own_and_this_version(manifest):
    """A plain "leafd" is free in the registries for whoever comes first."""
    text = read(os.path.join(ROOT, "clients", manifest))
    assert re.search("^" + PACKAGES[manifest], text, re.M), manifest
    version = read(os.path.join(ROOT, "VERSION")).strip()
    found = re.findall(r'^(?: +"version": "|version = "|    <version>)([^"<]+)', text, re.M)
    assert set(found) <= {version} and (found or manifest == "go/go.mod"), found


def test_no_page_installs_from_a_registry():
    """Until the names are ours there: files alone, by their path."""
    pages = PAGES + glob.glob(os.path.join(ROOT, "clients", "**", "README.md"), recursive=True)
    lines = [line for page in pages for line in re.findall(FROM_A_REGISTRY, read(page))]
    assert lines
    names = [word for line in lines for word in line.split() if not word.startswith(("-", "./"))]
    assert not names, names


def test_known_survivors_still_stand_in_their_files():
    """Of faults that no test notices scripts/mutants-known says why, each with an existing line."""
    page = read(os.path.join(ROOT, "scripts", "mutants-known"))
    rows = re.findall(r"^([\w/.]+)\n- (.+)\n\+ .*\n  .+$", page, re.M)
    assert rows
    for path, line in rows:
        lines = [text.strip() for text in read(os.path.join(ROOT, path)).splitlines()]
        assert line in lines, f"{path}: {line}"


def test_the_design_names_every_floor():
    """The table of layers has the folders that scripts/check-layers knows, and no others."""
    path = os.path.join(ROOT, "scripts", "check-layers")
    loader = importlib.machinery.SourceFileLoader("check_layers", path)
    spec = importlib.util.spec_from_loader("check_layers", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    section = read(os.path.join(ROOT, "docs", "design.md")).split("\n## Layers\n")[1]
    table = section.split("|---|---|---|\n")[1].split("\n\n")[0]
    missing = set(module.LAYERS) - set(in_code(table))
    assert not missing, f"floors that docs/design.md does not have: {sorted(missing)}"


def targets():
    """All targets that make knows."""
    listed = subprocess.run(["make", "-qp"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout
    return set(re.findall(r"^([\w.-]+):", listed, re.M))


def test_make_has_the_targets_that_are_named():
    known = targets()
    assert {"all", "run", "deb", "clients-test"} <= known
    for page in set(PAGES) - {os.path.join(ROOT, "CHANGELOG.md")}:  # which tells of old ones
        text = read(page)
        lines = in_code(text) + re.findall(r"^(?: {4}|\$ )?(make [^#\n]*)", text, re.M)
        for words in re.findall(r"\bmake((?: [^\s#&]+)*)", "\n".join(lines)):
            named = set(re.findall(r"(?<!\S)[a-z][a-z-]*(?!\S)", words))
            assert named <= known, f"{page}: make {' '.join(named - known)}"


def test_help_fits_on_a_screen():
    """And what it names can be asked for help, too."""
    lines = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert 10 < len(lines) <= 24 and max(map(len, lines)) <= 80, lines
    assert set(re.findall(r"^make ([\w.-]+)", "\n".join(lines), re.M)) <= targets()
    asked = [line.split()[:2] for line in lines if line.startswith("scripts/")]
    assert asked
    for command in asked:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert said.returncode == 0 and command[0] in said.stdout, command
