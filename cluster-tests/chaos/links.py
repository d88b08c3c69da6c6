"""The links between nodes: cut, slow, narrow, dropped, or with bytes that arrive as others.

Proxies (proxy.py) carry all traffic between nodes; here each direction of a link also has a Shape.
The happy path: attach(cluster) before the start; cut(links) and shape(links, ...) while it runs,
and restore(links) to end both. A link is a pair (source id, target id) and means one direction.

A cut link loses every byte and keeps its connections; when it carries again, those that lost bytes
are closed, and the nodes dial anew. It is a network that lost packets and not TCP's idea of it: the
other direction goes on.
"""

import asyncio
import random

from ports import take_port
from proxy import CHUNK_BYTES, Proxies

QUEUE_CHUNKS = 64


class Shape:
    """What one direction of a link does to what it carries."""

    def __init__(self, delay_ms=0, jitter_ms=0, bytes_per_s=0, corrupt_bytes=0, seed=0):
        self.delay_s = delay_ms / 1000
        self.jitter_s = jitter_ms / 1000
        self.bytes_per_s = bytes_per_s
        self.corrupt_bytes = corrupt_bytes  # one bit in so many bytes is turned; 0: none
        self.random = random.Random(seed)
        self.free = 0.0  # when a narrow link has sent what it was given

    def due(self, size, now):
        """When the far end is to have so many bytes that arrive now."""
        if self.bytes_per_s:
            self.free = max(self.free, now) + size / self.bytes_per_s
        return max(self.free, now) + self.delay_s + self.random.random() * self.jitter_s

    def spoil(self, data):
        if not self.corrupt_bytes or self.random.random() >= len(data) / self.corrupt_bytes:
            return data
        spoilt = bytearray(data)
        spoilt[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return bytes(spoilt)


class Links(Proxies):
    """The proxies of a cluster, each direction with its own faults."""

    def __init__(self):
        super().__init__()
        self.addresses = {}
        self.shapes = {}
        self.spoilt = 0

    def attach(self, cluster):
        """Before the cluster starts: give it the proxies' addresses."""
        self.nodes = cluster.nodes
        for node in cluster.nodes:
            self.add(node)
        cluster.set_members({node.id: self.addresses[node.id] for node in cluster.nodes})

    def add(self, node):
        """A proxy for one more node, which is told to listen behind it. Its address."""
        port = take_port()
        node.settings["peer-listen"] = node.peer_address
        asyncio.run_coroutine_threadsafe(self.listen(node, port), self.loop).result(5)
        self.addresses[node.id] = f"127.0.0.1:{port}"
        return self.addresses[node.id]

    async def pump(self, link, reader, writer):
        """Carry bytes one way: one task reads, one writes when it is time."""
        queue = asyncio.Queue(QUEUE_CHUNKS)
        writing = asyncio.ensure_future(self.write(queue, writer))
        lost = False
        last = 0.0
        try:
            while data := await reader.read(CHUNK_BYTES):
                if link in self.cuts:
                    lost = True
                    continue
                if lost:
                    break  # bytes are missing from the stream: it cannot go on
                now = self.loop.time()
                shape = self.shapes.get(link)
                if shape is not None:
                    last = max(last, shape.due(len(data), now))
                    fresh = shape.spoil(data)
                    self.spoilt += fresh is not data
                    data = fresh
                await queue.put((max(last, now), data))
            await queue.put((last, None))
            await writing
        except OSError:
            pass
        finally:
            writing.cancel()
            writer.close()

    async def write(self, queue, writer):
        broken = False
        while True:
            due, data = await queue.get()
            if data is None:
                return
            if broken:
                continue  # until the reader has found out, too
            wait = due - self.loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                broken = True
                writer.close()

    def cut_links(self, links):
        self.cuts.update(links)

    def shape(self, links, **shape):
        for link in links:
            self.shapes[link] = Shape(**shape)

    def restore(self, links):
        """These carry again as they should."""
        cut = {frozenset(link) for link in links if link in self.cuts}
        # A delayed or narrow connection has bytes under way, and a spoilt one is not trusted.
        shaped = {frozenset(link) for link in links if self.shapes.pop(link, None)}
        self.cuts.difference_update(links)
        self.loop.call_soon_threadsafe(self.close_pairs, cut | shaped)

    def reset(self, links):
        """Drop the connections of these."""
        self.loop.call_soon_threadsafe(self.abort_pairs, {frozenset(link) for link in links})

    def abort_pairs(self, pairs):
        for pair in pairs:
            for ends in list(self.open.get(pair, ())):
                for end in ends:
                    end.transport.abort()
