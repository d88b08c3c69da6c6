"""The reference model: what the documents say, with nothing of leafd's code.

It knows for every name what was handed out and what may still come. Each check that fails is a
Violation, whose kind is one word for the promise that was broken. What nobody can know (an answer
that did not come) is kept as such: both outcomes are right from then on.
"""

import copy
import string
import time

NO_MAX = (1 << 63) - 1
DIGITS = {10: string.digits, 16: "0123456789ABCDEF", 32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
          36: string.digits + string.ascii_uppercase,
          62: string.digits + string.ascii_uppercase + string.ascii_lowercase}


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def must(held, kind, text):
    if not held:
        raise Violation(kind, text)


# name: (the shape, base, width, check). Where the number is secret the model cannot make the text.
SHAPES = {
    "plain": ("INV-{id:3}", 10, 3, None),
    "luhn": ("N{id:6}{luhn}", 10, 6, "luhn"),
    "mod97": ("DE{id36:4}{mod97}", 36, 4, "mod97"),
    "base62": ("{id62}x", 62, 1, None),
    "day": ("D{year}{month}{day}-{id:6}", 10, 6, None),
    "short-day": ("S{year}{month}{day}-{id:2}", 10, 2, None),
    "berlin": ("{year@Europe/Berlin}/{month}/{id:5}", 10, 5, None),
    "secret": ("{secret:6}", 10, 6, None),
    "keyed": ("K{key}-{secret:6}", 10, 6, None),
}
DATED = {"day", "short-day", "berlin"}
SECRET = {"secret", "keyed"}
KEYS = 10  # of a keyed one, of which a restore passes over the next
KEYS_AHEAD = 2


def luhn(digits):
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value // 10 + value % 10
    return str(-total % 10)


def mod97(text):
    number = "".join(str(int(c, 36)) for c in text if c.isalnum())
    return f"{98 - int(number + '00') % 97:02}"


def in_base(number, base, width):
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = DIGITS[base][digit] + digits
    return digits.rjust(width, "0")


def text_of(shape, number):
    """The text of a number; None where only the cluster knows."""
    form, base, width, check = SHAPES[shape]
    if shape in SECRET:
        return None
    if shape in DATED:
        period, counter = divmod(number, 10 ** width)
        period = str(period)
        form = form.replace("{year@Europe/Berlin}", period[:4]).replace("{year}", period[:4])
        form = form.replace("{month}", period[4:6]).replace("{day}", period[6:8])
        number = counter
    head, _, tail = form.partition("{id")
    text = head + in_base(number, base, width)
    tail = tail[tail.index("}") + 1:]
    if check == "luhn":
        return text + luhn("".join(c for c in text if c.isdigit()))
    return text + mod97(text) if check == "mod97" else text + tail


class Tag:
    """A name, for ever: also after it was deleted."""

    def __init__(self, name, shape):
        self.name, self.shape = name, shape
        self.alive = False
        self.mode, self.max, self.step, self.key, self.cover = "trend", NO_MAX, 1000, 0, 0
        self.given = set()  # numbers
        self.texts = set()
        self.floor = 1  # no number below comes any more
        self.next = 1  # of a strict tag: the number that comes next; None: as after a change
        self.slack = 0  # of a strict tag: so many more may have gone to requests without an answer
        self.highest = 0  # of what was handed out in this generation of a monotonic tag
        self.per_node = {}  # the highest of each node
        self.behind = set()  # nodes that may not have heard of the last change yet
        self.left_from = 1  # of one node: nothing from here on was lost ...
        self.generation = 0
        self.murky = False  # a change without an answer: fields are not known
        self.restored = False
        self.grew = False  # ids or keys were given out between the backup and its restore
        self.remade = False  # it was younger than the backup, and made again as the documents say

    def width(self):
        return SHAPES[self.shape][2]

    @property
    def kind(self):
        """What fails of this tag: for narrow rows of known faults."""
        shape = "dated" if self.shape in DATED else self.shape if self.shape in SECRET else ""
        past = "restored" if self.restored else "remade" if self.remade else ""
        return "-".join(word for word in (shape, past) if word)

    def top(self):
        """The highest number that was handed out, by the key that is in force."""
        if self.shape != "keyed":
            return max(self.given, default=0)
        size = 10 ** self.width()
        return max((n for n in self.given if n // size == self.key), default=0)

    def available(self):
        """So many ids are certainly left, on one node."""
        return self.max - self.left_from - sum(n >= self.left_from for n in self.given)

    def begins_anew(self, max_id, others):
        """A new generation: what nodes held is burnt; the others may not have heard of it."""
        if self.shape not in DATED:
            self.floor = max(self.floor, max_id)
        self.next, self.slack, self.left_from = max_id, 0, max_id
        self.behind = set(others)

    def may_be_exhausted(self, count, alone):
        """May a request for so many be refused?"""
        if self.murky or self.restored and self.shape in DATED:
            return True
        if self.mode == "strict":
            if self.next is None:
                return True
            size = 10 ** self.width() if self.shape in DATED else 0
            left = size - self.next % size if size else self.max - self.next
            return left - self.slack < count
        return not alone or self.left_from is None or self.available() < count


class Share:
    """Tags of a client that may have few: what they count, as docs/http-api.md says."""

    MOST, CLIENT = 1 << 20, "eve"

    def __init__(self):
        self.tags = {}  # name: (owner, bytes of its description and reason; None: deleted)
        self.sure = True  # no change is without an answer

    @staticmethod
    def count(name, text):
        return 144 + len(name) if text is None else 464 + 2 * len(name) + text

    def held(self):
        return sum(self.count(name, text) for name, (owner, text) in self.tags.items()
                   if owner == self.CLIENT)

    def lives(self, name):
        return name in self.tags and self.tags[name][1] is not None

    def put(self, names, who, text):
        """The same after that; None: it is more than the client may have."""
        after = Share()
        after.tags = dict(self.tags)
        held = self.held()
        for name in names:
            owner, old = self.tags.get(name, (None, None))
            before = self.count(name, old) if name in self.tags else 0
            new = self.count(name, text)
            now = who if old is None or new > before else owner
            change = new * (now == self.CLIENT) - before * (owner == self.CLIENT)
            held += change
            if who == self.CLIENT and change > 0 and held > self.MOST:
                return None
            after.tags[name] = (now, text)
        return after

    def delete(self, name):
        self.tags[name] = (self.tags[name][0] if name in self.tags else self.CLIENT, None)


class Model:
    """All that a client can know of a cluster."""

    def __init__(self, size, one_owner=False):
        self.size, self.one_owner = size, one_owner  # of keys: clients without a proof are one
        self.tags = {}
        self.lost = {}  # tags that were younger than the backup which was restored
        self.keys = {}  # (tag, key): what it has
        self.flakes = {}  # layout or None: ids that were ever handed out; outlives everything
        self.workers = {}  # name: its last grant, and whose it is
        self.stamped = {}  # worker id: no time up to this one may be granted again
        self.layouts = {}
        self.share = Share()
        self.eve_workers = {}  # is it of a wider layout alone? So many; None: nobody knows
        self.eve_freed = False  # what she held is free, and hers again when she asks
        self.imported = {}  # name: ids
        self.stepped = {}  # of tags with an increment: all that was ever handed out
        self.steps = {}  # their increments, offsets and max (None: not known)
        self.paused = set()  # of tags with pauses, those that somebody left so
        self.pools = ""  # of worker ids; None: nobody knows
        self.placed = {}  # node: its weight, and whether it is drained; if somebody knows
        self.cut_s = 0  # till is cut until the clocks were set so far; None: nobody knows
        self.days = 0  # the clock was set so often: keys may be over
        self.clock_moved = False
        self.least_s = 0  # no number with a date is of an earlier period than this time's

    # --- tags ---

    def tag(self, name, shape=None):
        if name not in self.tags:
            self.tags[name] = Tag(name, shape)
        return self.tags[name]

    def shown(self, tag, row):
        """A row that the cluster showed."""
        if not tag.murky:
            must(row["mode"] == tag.mode, "wrong-mode", f"{row} where {tag.mode} was set")
            must(row.get("cover_s", 0) == tag.cover, "wrong-cover",
                 f"{row} where {tag.cover} was set")
            key = row.get("key", 0)
            must(int(key) == tag.key, "wrong-key", f"{row} where key {tag.key} was set")
            must(row.get("shape") == (SHAPES[tag.shape][0] if tag.shape else None),
                 "wrong-shape", f"{row} where {tag.shape} was given")
        max_id = int(row["max_id"])
        tag.generation = int(row["generation"])
        if tag.mode == "strict" and tag.next is not None and tag.shape not in DATED:
            must(tag.murky or tag.next <= max_id <= tag.next + tag.slack, "strict-max-id",
                 f"{row} where {tag.next} is next (and {tag.slack} more may be gone)")
        top = tag.top()
        if tag.shape not in DATED and not tag.murky:
            must(max_id > top, "again" + (f"-{tag.kind}" if tag.kind else ""),
                 f"{row}, and {top} was handed out")
        return max_id

    def took(self, tag, node, numbers, texts, where):
        """Ids came. numbers: those that are known, rising; texts: of a shape."""
        kind = f"-{tag.kind}" if tag.kind else ""
        if texts is not None:
            again = sorted(tag.texts & set(texts))
            must(not again and len(set(texts)) == len(texts), "again" + kind,
                 f"{where}: {tag.name} gave {again[:3]} before")
            tag.texts.update(texts)
        if not numbers:
            return
        again = sorted(tag.given & set(numbers))
        must(not again, "again" + kind, f"{where}: {tag.name} gave {again[:3]} before")
        must(all(a < b for a, b in zip(numbers, numbers[1:])), "not-rising", f"{where}: {numbers}")
        if node not in tag.behind:
            must(numbers[0] >= tag.floor, "below-floor" + kind,
                 f"{where}: {tag.name} gave {numbers[0]}, where all below {tag.floor} is burnt")
        must(numbers[-1] < tag.max or tag.murky, "beyond-max", f"{where}: {numbers[-1]}")
        # What a node that is behind holds of before the change lies below: the rest is of the log.
        if tag.mode == "strict" and (node not in tag.behind or
                                     tag.next is not None and numbers[0] >= tag.next):
            self.took_strict(tag, numbers, where)
        elif tag.mode == "monotonic" and node not in tag.behind:
            must(numbers[0] > tag.highest, "not-monotonic",
                 f"{where}: {tag.name} gave {numbers[0]} after {tag.highest}")
        must(numbers[0] > tag.per_node.get(node, 0), "falls-on-node",
             f"{where}: {tag.name} gave {numbers[0]} after {tag.per_node.get(node)}")
        if tag.shape in DATED:
            period = str(numbers[0] // 10 ** tag.width())
            least = time.strftime("%Y%m%d", time.gmtime(self.least_s))[:len(period)]
            must(period >= least, "period-is-over", f"{where}: {numbers[0]}, not before {least}")
        tag.per_node[node] = numbers[-1]
        tag.highest = max(tag.highest, numbers[-1])
        tag.given.update(numbers)
        if texts is not None and tag.shape not in SECRET:
            right = [text_of(tag.shape, number) for number in numbers]
            must(right == texts, "wrong-text", f"{where}: {texts} where {right} is right")

    def took_strict(self, tag, numbers, where):
        first, last = numbers[0], numbers[-1]
        must(last - first == len(numbers) - 1, "strict-gap", f"{where}: {numbers}")
        if tag.shape in DATED:
            size = 10 ** tag.width()
            must(first // size == last // size, "strict-gap", f"{where}: {numbers}")
            if tag.next is not None and tag.next % size == 0:  # a period begins with 1
                tag.next += 1
            if tag.next is not None and first // size > tag.next // size:
                tag.next, tag.slack = (first // size) * size + 1, 0
        if tag.next is not None:
            must(tag.next <= first <= tag.next + tag.slack, "strict-gap",
                 f"{where}: {tag.name} gave {first}, where {tag.next} is next"
                 f" (and {tag.slack} more may be gone)")
            tag.slack -= first - tag.next
        tag.next = last + 1

    def made_again(self, tag):
        """With a max_id above all that was handed out of one that a restore did not know."""
        lost = self.lost.pop(tag.name)
        tag.given, tag.texts, tag.remade = lost.given, lost.texts, True

    # --- idempotency keys ---

    def key_must(self, tag, key, owner, count):
        """Codes that are right, and the entry if there is one."""
        entry = self.keys.get((tag.name, key))
        if tag.mode == "trend":
            return {"bad_key"}, None
        if entry is None:
            return {"ok"}, None
        sure = not entry["maybe"] and entry["days"] == self.days
        if entry["owner"] != owner and not self.one_owner:
            codes = {"idempotency_conflict"}
        else:
            codes = {"ok"} if entry["count"] == count else {"idempotency_conflict"}
        return codes | (set() if sure else {"ok", "idempotency_conflict"}), entry

    # --- worker ids ---

    def granted(self, number, grant, row, where):
        floor = self.stamped.get(number, 0)
        must(grant["from_ms"] >= floor and grant["until_ms"] > grant["from_ms"], "window-overlaps",
             f"{where}: {grant} where times up to {floor} were granted")
        must(row is None or grant["epoch"] > row["epoch"], "epoch-again",
             f"{where}: {grant}, {row}")
        self.stamped[number] = grant["until_ms"]

    def renewed(self, grant):
        self.stamped[grant["worker_id"]] = max(grant["until_ms"],
                                               self.stamped.get(grant["worker_id"], 0))

    def released(self, grant, last_ms):
        if self.stamped.get(grant["worker_id"]) == grant["until_ms"]:
            self.stamped[grant["worker_id"]] = last_ms

    # --- a whole state ---

    def snapshot(self):
        return copy.deepcopy({"tags": self.tags, "keys": self.keys, "layouts": self.layouts,
                              "share": self.share, "pools": self.pools, "steps": self.steps,
                              "paused": self.paused,
                              "stepped": {name: max(given, default=0)
                                          for name, given in self.stepped.items()}})

    def restored(self, snapshot, raise_ids, drop_keys, at_end, now_ms):
        """The state is that of the snapshot. What was handed out since, of tags that it knows, does
        not come again, if it was less than the raise."""
        now = self.tags
        self.tags = copy.deepcopy(snapshot["tags"])
        self.layouts = copy.deepcopy(snapshot["layouts"])
        self.share = copy.deepcopy(snapshot["share"])
        self.pools, self.steps = snapshot["pools"], dict(snapshot["steps"])
        self.paused = set(snapshot["paused"])
        self.placed = {}
        self.cut_s = None if at_end else 0  # backups have none
        # The raise counts ids.
        self.stepped = {name: given for name, given in self.stepped.items()
                        if name in self.steps and (at_end or max(given, default=0) < (
                            snapshot["stepped"].get(name, 0) + raise_ids * self.steps[name][0]))}
        self.steps = {name: (by, at, most if most == NO_MAX else None)  # it may have moved
                      for name, (by, at, most) in self.steps.items()}
        self.imported = {}  # one younger than the backup begins where it is told to
        # All worker ids are released, and the names of holders are others. Those were stopped, as
        # the documents demand: no time up to the restore comes again, of what lies ahead any may.
        self.workers = {}
        self.eve_workers, self.eve_freed = {}, True
        self.stamped = {number: min(until_ms, now_ms) for number, until_ms in self.stamped.items()}
        self.keys = {} if drop_keys else copy.deepcopy(snapshot["keys"])
        self.lost.update((name, tag) for name, tag in now.items() if name not in self.tags)
        for name, tag in self.tags.items():
            later = now[name]
            tag.grew = later.grew or tag.given != later.given or tag.key != later.key
            covered = at_end or within(tag, later, raise_ids)
            tag.given = set(later.given) if covered else set()
            tag.texts = set(later.texts) if covered else set()
            tag.restored = True
            tag.per_node = {}
            tag.behind = set()
            tag.next = tag.left_from = None
            if tag.shape == "keyed" and tag.key + KEYS_AHEAD < KEYS:
                tag.key += KEYS_AHEAD
                tag.max = (tag.key + 1) * 10 ** tag.width()
            tag.floor = tag.top() + 1 if covered and tag.shape not in DATED else 1
            tag.slack = 0
            tag.highest = 0


def within(tag, later, raise_ids):
    """Were fewer ids handed out since than the raise covers?"""
    if later.shape in DATED:
        return len(later.given) - len(tag.given) < raise_ids
    grown = max(later.given, default=0) - max(tag.given, default=0)
    return later.key != tag.key or grown < raise_ids
