"""What several cases share."""

import os

from measure import Contender
from servers import HOST, Etcd

CONNECTIONS = 64


def etcd_contender(bench, targets=None):
    """A single etcd with puts over HTTP, to one key, or to the keys of a targets file. The revision
    in each answer is the id: every put has a new one."""
    etcd = bench.start(Etcd(bench.data))
    command = [bench.tool("load"), "--address", f"{HOST}:{etcd.port}", "--connections",
               str(CONNECTIONS), "--expect", "field:revision", "--post", etcd.put_body("order")]
    command += ["--targets", targets] if targets else ["/v3/kv/put"]
    return Contender("etcd", "etcd, 1 member", [etcd], command)


def write_lines(bench, name, lines):
    """A file of the benchmark's own; its path."""
    path = os.path.join(bench.data, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    return path
