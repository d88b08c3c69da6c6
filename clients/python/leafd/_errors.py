"""The one error that leafd's calls raise."""
from __future__ import annotations

import re
from typing import Optional

# Codes of the library itself; all others are the server's (docs/http-api.md).
OWN_RETRYABLE = {
    "bad_setting": False,
    "unreachable": True,
    "untrusted": False,
    "other_cluster": False,
    "bad_answer": False,
    "window_over": True,
    "fenced": True,
    "layout_unknown": True,
    "closed": False,
}
# Of the server's, beside all with status 503: what ends by itself.
SERVER_RETRYABLE = frozenset({"quota", "no_worker_id", "paused", "too_slow"})


# What a server may have put into a message, and no log should get; JSON may have half a character.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class LeafdError(Exception):
    """What went wrong.

    code       for programs: the server's, such as "unknown_tag", or one of the library's
    status     of HTTP; 0 where no server answered
    message    for people
    retryable  whether it makes sense to come again with the same call
    key        of a strict call, and one of texts: the Idempotency-Key under which to come again, else None
    """

    def __init__(self, code: str, message: str, status: int = 0,
                 key: Optional[str] = None) -> None:
        message = _CONTROL.sub("?", message)
        super().__init__(code, message, status)
        self.code = code
        self.message = message
        self.status = status
        self.key = key

    @property
    def retryable(self) -> bool:
        if self.code in OWN_RETRYABLE:
            return OWN_RETRYABLE[self.code]
        return self.status == 503 or self.code in SERVER_RETRYABLE

    def __str__(self) -> str:
        return f"{self.code} ({self.status}): {self.message}" if self.status else \
            f"{self.code}: {self.message}"


def bad_setting(name: str, value: object, rule: str) -> LeafdError:
    """A setting or a parameter that breaks its rule; a token is never shown."""
    shown = "..." if name == "token" else repr(value)[:200]
    return LeafdError("bad_setting", f"{name}={shown}: it must be {rule}")


def copy_of(error: LeafdError) -> LeafdError:
    """The same error for another caller: one exception object is not to be raised twice, since
    each raise hangs its own traceback onto it."""
    return LeafdError(error.code, error.message, error.status, error.key)
