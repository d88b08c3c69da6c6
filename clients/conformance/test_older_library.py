"""A libleafd of an older leafd at the present nodes: programs are not built anew when nodes are."""

import os
import shutil
import subprocess

import pytest

from driver import Driver, check_once, check_rising, urls
from node import ROOT

# Of the first client libraries, as they were finished.
COMMIT = "c7b413e763646ffdd526841531b47ead45a9abc4"
BUILD_S = 200


@pytest.fixture(scope="session")
def older_driver(tmp_path_factory):
    """The driver of libleafd as it was then."""
    if shutil.which("cc") is None or shutil.which("curl-config") is None:
        pytest.skip("no cc or no libcurl: scripts/setup clients installs them")
    place = str(tmp_path_factory.mktemp("older"))
    archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT, "clients/c", "VERSION"],
                             capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"no history: {archive.stderr.decode(errors='replace')}")
    subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "OUT")}
    subprocess.run(["make", "-s", "-C", os.path.join(place, "clients", "c"), "build"], check=True,
                   timeout=BUILD_S, env=env)
    return os.path.join(place, "clients", "c", "driver")


@pytest.mark.bound(300)
def test_an_older_libleafd(older_driver, tmp_path, shared, tag, strict_tag):
    """All that it knew goes on as it was, errors, keys and worker ids included."""
    client = Driver("c", tmp_path, path=older_driver)
    try:
        client.open(endpoints=urls(shared))
        ids = client.ids(f"segment {tag} 5000")
        check_rising(ids)
        check_once(ids, client.ids(f"range {tag} 100"), client.ids(f"threads 4 {tag} 500"))
        assert client.ids(f"strict {strict_tag} 3 mine") == [(1, 3)]
        assert client.ids(f"strict {strict_tag} 3 mine").replayed
        assert client.ids(f"strict {strict_tag} 2") == [(4, 5)]
        check_rising(client.ids("snowflake 5000"))
        assert client.refused(f"segment {tag}.absent 1", "unknown_tag").status == 404
        assert client.refused(f"strict {strict_tag} 2 mine", "idempotency_conflict").status == 409
        client.end()
    finally:
        client.kill()
