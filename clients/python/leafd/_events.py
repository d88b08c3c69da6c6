"""What a program may want to hear of, beside errors and counters.

The happy path: Teller.tell("aged", tag="order", ids=5) gives the hook an Event, and logging a line
under "leafd". Failure modes: what the hook raises is logged, and harms nothing. Threads: any, but
never one that holds a lock of the library.
"""
from __future__ import annotations

import logging
from typing import Callable, NamedTuple, Optional

_log = logging.getLogger("leafd")
_log.addHandler(logging.NullHandler())
_WARNINGS = frozenset({"failover", "refill_failed", "fenced", "clock_back", "other_cluster"})


class Event(NamedTuple):
    """kind                 what else is given

    failover             from_url, to_url: requests begin with another node now
    refill_failed        tag, code: no ids came; not told again before "recovered"
    recovered            tag: ids come again
    fenced               name: its worker id is another's
    clock_back           name, ms: the clock is so far, over 5 ms, behind the ids that were made
    aged, generation     tag, ids: so many were dropped, as too old or of an older generation
    other_cluster        from_url: what that node answered is of another cluster; told once
    """

    kind: str
    tag: Optional[str] = None
    name: Optional[str] = None
    code: Optional[str] = None
    ids: Optional[int] = None
    ms: Optional[int] = None
    from_url: Optional[str] = None
    to_url: Optional[str] = None


class Teller:
    def __init__(self, hook: Optional[Callable[[Event], object]]) -> None:
        self._hook = hook

    def tell(self, event: Event) -> None:
        level = logging.WARNING if event.kind in _WARNINGS else logging.INFO
        _log.log(level, "%s", " ".join(f"{name}={value}" for name, value in
                                       event._asdict().items() if value is not None))
        if self._hook is not None:
            try:
                self._hook(event)
            except Exception:
                _log.exception("on_event failed, with %s", event.kind)
