"""leafctl as an operator runs it: its path, and how it is run against a cluster of the tests."""

import json
import os
import subprocess

from node import ROOT, leafd_path


def leafctl_path():
    """Beside the leafd that is tested, if it is there; otherwise that of the build."""
    beside = os.path.join(os.path.dirname(leafd_path()), "leafctl")
    return beside if os.path.exists(beside) else os.path.join(ROOT, "build/release/leafctl")


class Run:
    """What came of a run."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"<{self.code}>\n{self.out}\n{self.err}"


def environment(home, **more):
    """No settings of the surroundings are meant for it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEAFCTL_")}
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": "", **more}


class Leafctl:
    """Asks these addresses, with a home of its own. settings: LEAFCTL_... without that."""

    def __init__(self, home, *addresses, **settings):
        self.env = environment(home, **{f"LEAFCTL_{name}": str(value)
                                        for name, value in settings.items()})
        if addresses:
            self.env["LEAFCTL_SERVER"] = ",".join(addresses)

    def popen(self, *arguments, **options):
        return subprocess.Popen([leafctl_path(), *map(str, arguments)], env=self.env,
                                stdin=subprocess.DEVNULL, **options)

    def __call__(self, *arguments, code=0, timeout=40, stdin=None):
        done = Run(subprocess.run([leafctl_path(), *map(str, arguments)], env=self.env, text=True,
                                  input=stdin, capture_output=True, timeout=timeout, check=False))
        assert code is None or done.code == code, done
        return done


def of(cluster, home, **settings):
    """leafctl for all nodes of a cluster."""
    return Leafctl(home, *[node.http_address for node in cluster.nodes], **settings)
