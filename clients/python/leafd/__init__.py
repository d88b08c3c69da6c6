"""Ids of leafd: from ranges held in the process, strictly rising, or snowflakes.

    import leafd

    with leafd.Client("http://127.0.0.1:8080") as client:
        orders = client.segment("order")
        print(orders.next())

leafd.aio has the same for asyncio. What the settings and errors mean is in docs/clients.md.
"""
from ._api import Decoded, Layout
from ._client import Client, IdSource, Segment, Snowflake, Strict, Texts
from ._errors import LeafdError
from ._events import Event
from ._http import VERSION
from ._sources import StrictIds, TextIds
from ._stats import Gauges

__all__ = ["Client", "Decoded", "Event", "Gauges", "IdSource", "Layout", "LeafdError", "Segment", "Snowflake", "Strict",
           "StrictIds", "TextIds", "Texts"]
__version__ = VERSION
