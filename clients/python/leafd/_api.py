"""What is asked of leafd, and what its answers mean (docs/http-api.md)."""
from __future__ import annotations

import json
import re
import secrets
from typing import List, NamedTuple, Optional, Tuple
from urllib.parse import quote

from ._errors import LeafdError
from ._http import Reply, Request
from ._settings import TEXT_MAX, whole

ID_MAX = (1 << 63) - 1
RANGES_MAX = 64
WORKER_MAX = 1023
RETRY_AFTER_MAX_S = 86400.0
_TEXT = re.compile("[\x21-\x7e]{1,%d}" % TEXT_MAX)
_SHAPED = " has a shape, "  # in the refusal of ranges
_NUMBER = "(0|[1-9][0-9]{0,18})"
_RANGE = re.compile(f"{_NUMBER} {_NUMBER}")
_STEPPED = re.compile(f"{_NUMBER} {_NUMBER} {_NUMBER}")


class Layout(NamedTuple):
    """How the snowflake ids of a cluster are made."""

    epoch_ms: int
    time_bits: int
    worker_bits: int
    sequence_bits: int

    def at(self, time_ms: int) -> int:
        """The smallest id of a time, for scans of ids by time."""
        last_ms = self.epoch_ms + (1 << self.time_bits) - 1
        return whole("time_ms", time_ms, self.epoch_ms, last_ms) - self.epoch_ms << (
            self.worker_bits + self.sequence_bits)

    def decode(self, id: int) -> "Decoded":
        """Take an id apart, without asking anybody."""
        sequence = id & ((1 << self.sequence_bits) - 1)
        worker = id >> self.sequence_bits & ((1 << self.worker_bits) - 1)
        return Decoded((id >> (self.sequence_bits + self.worker_bits)) + self.epoch_ms, worker,
                       sequence)


class Decoded(NamedTuple):
    """A snowflake id, taken apart."""

    timestamp_ms: int
    worker_id: int
    sequence: int


class Grant(NamedTuple):
    """A worker id as it was granted or renewed; layout: None where the node does not know it."""

    worker_id: int
    epoch: int
    from_ms: int
    until_ms: int
    layout: Optional[Layout]


def segment_request(tag: str, count: int, contiguous: bool = False, key: Optional[str] = None,
                    stepped: bool = False) -> Request:
    target = f"/api/segment/get/{quote(tag, safe='')}?count={count}&format=range"
    target += ("&contiguous=1" if contiguous else "") + ("&stepped=1" if stepped else "")
    return Request("GET", target, () if key is None else (("Idempotency-Key", key),))


def texts_request(tag: str, count: int, key: Optional[str] = None) -> Request:
    target = f"/api/segment/get/{quote(tag, safe='')}?count={count}"
    return Request("GET", target, () if key is None else (("Idempotency-Key", key),))


def decode_request(tag: str, text: str) -> Request:
    return Request("GET", f"/api/segment/decode/{quote(tag, safe='')}?text={quote(text, safe='')}")


def new_key() -> str:
    """26 random characters of base 32: 130 bits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(26))


def acquire_request(name: str, window_ms: int) -> Request:
    body = json.dumps({"name": name, "window_ms": window_ms}, ensure_ascii=False)
    return Request("POST", "/api/workers", (), body.encode(), (201,))


def renew_request(worker_id: int, epoch: int, window_ms: int, last_ms: Optional[int]) -> Request:
    """last_ms: the highest time used; None: none yet."""
    body = {"epoch": epoch, "window_ms": window_ms}
    if last_ms is not None:
        body["last_timestamp_ms"] = last_ms
    return Request("PUT", f"/api/workers/{worker_id}", (), json.dumps(body).encode(), (200, 201))


def release_request(worker_id: int, epoch: int, last_ms: int) -> Request:
    target = f"/api/workers/{worker_id}?epoch={epoch}&last_timestamp_ms={last_ms}"
    return Request("DELETE", target, success=(204,))


def bad_answer(reply: Reply, what: str) -> LeafdError:
    return LeafdError("bad_answer", f"status {reply.status}, {what}: {reply.body[:100]!r}",
                      reply.status)


def error_of(reply: Reply, success: Tuple[int, ...]) -> Optional[LeafdError]:
    """None for what succeeded."""
    if reply.status in success:
        return None
    try:
        body = json.loads(reply.body)
        code, message = body["code"], body["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return bad_answer(reply, "and no error of leafd")
    if not isinstance(code, str) or not re.fullmatch(r"[a-z0-9_]{1,64}", code) \
            or not isinstance(message, str) or reply.status < 400:
        return bad_answer(reply, "and no error of leafd")
    message = message[:1000]
    if reply.status == 400 and code == "bad_request" and _SHAPED in message:
        message += "; use texts() of the client"
    return LeafdError(code, message, reply.status)


def retry_after(reply: Reply) -> float:
    """In seconds; 0: it says nothing that can be read."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_MAX_S) if re.fullmatch("[0-9]+", text) else 0.0


def ranges_of(reply: Reply, count: int, stepped: bool = False) -> List[range]:
    """The ranges of an answer, which must have exactly as many ids as were asked for, rising;
    stepped: each line has an increment."""
    try:
        text = reply.body.decode("ascii")
    except UnicodeDecodeError:
        raise bad_answer(reply, "and no ranges") from None
    lines = text.split("\n")
    if lines.pop() != "":
        raise bad_answer(reply, "and a line without an end")
    ranges: List[range] = []
    before = -1
    for line in lines:
        match = (_STEPPED if stepped else _RANGE).fullmatch(line)
        if not match or len(ranges) == RANGES_MAX:
            raise bad_answer(reply, "and no ranges")
        first, last, *steps = map(int, match.groups())
        step = steps[0] if steps else 1
        if not before < first <= last <= ID_MAX:
            raise bad_answer(reply, "and ranges that do not rise")
        if step < 1 or (last - first) % step:
            raise bad_answer(reply, "and an increment by which the last id is not reached")
        if (last - first) // step >= count:
            raise bad_answer(reply, f"and not the {count} ids asked for")
        ranges.append(range(first, last + 1, step))
        before = last
    if sum(len(one) for one in ranges) != count:
        raise bad_answer(reply, f"and not the {count} ids asked for")
    return ranges


def generation_of(reply: Reply) -> int:
    """Of the data of the node that answered; -1: it names none."""
    text = reply.headers.get("leafd-generation")
    if text is None:
        return -1
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > ID_MAX:
        raise bad_answer(reply, f"and {text[:40]!r} for its generation")
    return int(text)


def is_replayed(reply: Reply) -> bool:
    """Another request with the same key had been answered so before."""
    return reply.headers.get("idempotency-replayed", "").lower() == "true"


def texts_of(reply: Reply, count: int) -> List[str]:
    """The texts of an answer, one a line, as many as were asked for."""
    if len(reply.body) > count * (TEXT_MAX + 1):
        raise bad_answer(reply, f"and more than {count} ids can have")
    try:
        lines = reply.body.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise bad_answer(reply, "and no ids") from None
    if lines.pop() != "" or not all(_TEXT.fullmatch(line) for line in lines):
        raise bad_answer(reply, "and no ids")
    if len(lines) != count:
        raise bad_answer(reply, f"and not the {count} ids asked for")
    return lines


def text_id_of(reply: Reply) -> int:
    """The number that a text was found to have."""
    try:
        row = json.loads(reply.body)
        id, granted = row["id"], row["granted"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad_answer(reply, "and no id") from None
    if not isinstance(granted, bool) or not isinstance(id, str) \
            or not re.fullmatch("[0-9]{1,19}", id) or int(id) > ID_MAX:
        raise bad_answer(reply, "and no id")
    return int(id)


def _number(row: object, name: str, low: int, high: int) -> int:
    value = row[name] if isinstance(row, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(name)
    return value


def grant_of(reply: Reply) -> Grant:
    try:
        row = json.loads(reply.body)
        layout = None
        if row["layout"] is not None:
            bits = row["layout"]
            layout = Layout(_number(bits, "epoch_ms", 0, ID_MAX), _number(bits, "time_bits", 1, 62),
                            _number(bits, "worker_bits", 1, 10),
                            _number(bits, "sequence_bits", 1, 20))
            if sum(layout[1:]) > 63:
                raise ValueError("layout")
        workers = WORKER_MAX if layout is None else (1 << layout.worker_bits) - 1
        grant = Grant(_number(row, "worker_id", 0, workers), _number(row, "epoch", 1, ID_MAX),
                      _number(row, "from_ms", 0, ID_MAX), _number(row, "until_ms", 0, ID_MAX),
                      layout)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad_answer(reply, "and no worker id") from None
    if grant.until_ms < grant.from_ms:
        raise bad_answer(reply, "and no window")
    if grant.layout is not None and grant.until_ms <= grant.layout.epoch_ms:
        raise bad_answer(reply, "and a window before the layout's epoch")
    return grant
