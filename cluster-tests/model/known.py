"""Faults that are known, and not mended yet: whoever mends one deletes its row.

Each has the sequence that shows it, which is asserted to fail still, with its kind; and what a
random sequence leaves out meanwhile, so that it can look behind the fault.
"""

from model.reference import SECRET


class Known:
    """kind: of the Violation. avoid(run, name, words): is the operation to be left out? A kind that
    nothing avoids ends the sequence, which then counts as a known fault."""

    def __init__(self, why, kind, replay, avoid=lambda run, name, words: False):
        self.why, self.kind, self.replay, self.avoid = why, kind, replay, avoid


def row_of(run, words):
    return run.tag(words["tag"])


def makes_a_secret_tag_again(run, name, words):
    return name == "put" and row_of(run, words).shape in SECRET and (
        words["tag"] in run.model.lost)


KNOWN = {
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
