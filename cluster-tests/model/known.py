"""Faults that are known, and not mended yet: whoever mends one deletes its row.

Each has the sequence that shows it, which is asserted to fail still, with its kind; and what a
random sequence leaves out meanwhile, so that it can look behind the fault.
"""

from model.reference import DATED, NO_MAX, SECRET


class Known:
    """kind: of the Violation. avoid(run, name, words): is the operation to be left out? A kind that
    nothing avoids ends the sequence, which then counts as a known fault."""

    def __init__(self, why, kind, replay, avoid=lambda run, name, words: False):
        self.why, self.kind, self.replay, self.avoid = why, kind, replay, avoid


def row_of(run, words):
    return run.tag(words["tag"])


def copies_a_dated_tag(run, name, words):
    return name == "copy" and row_of(run, words).shape in DATED


def copies_a_tag_that_ends_soon(run, name, words):
    row = row_of(run, words) if name == "copy" else None
    return row is not None and row.max < 10**6 + max(row.given, default=0) + 10**5


def makes_a_secret_tag_again(run, name, words):
    return name == "put" and row_of(run, words).shape in SECRET and (
        words["tag"] in run.model.lost)


KNOWN = {
    "dump-of-a-dated-tag": Known(
        "a page of the list with a dated tag cannot be posted to another cluster",
        "dump-refused-dated",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "D{year}{month}{day}-{id:6}"}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0"}]
["copy", {"tag": "a/0"}]
""", copies_a_dated_tag),
    "dump-of-a-tag-that-ends-soon": Known(
        "nor one with a tag that has fewer than a million ids left below its max",
        "dump-refused-needs_force",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "max": 30}}}
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0"}]
["copy", {"tag": "a/0"}]
""", copies_a_tag_that_ends_soon),
    "secret-tag-younger-than-the-backup": Known(
        "made again with a max_id above all that was handed out it has another key, and the texts "
        "of the one before",
        "again-secret-remade",
        """
{"nodes": 1, "tags": {"a/0": {"mode": "strict", "shape": "{secret:6}"}}}
["backup", {}]
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 10000}]
["restore", {}]
["put", {"tag": "a/0"}]
["ids", {"tag": "a/0", "count": 10000}]
""", makes_a_secret_tag_again),
}
