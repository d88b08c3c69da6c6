"""A proxy between a client and one node's HTTP, which a test can close, cut, make lose answers.

It keeps what passed through: each request with its answer. The happy path: gate = Gate(address),
endpoints=gate.url, then gate.exchanges. One thread serves all gates of a test run.
"""

import asyncio
import threading
import time

from ports import take_port

CHUNK_BYTES = 1 << 16
CARRY, DEAF, CLOSED = "carry", "deaf", "closed"


class Message:
    """A request or an answer."""

    def __init__(self, head, body):
        self.start, *lines = head.decode("latin-1").split("\r\n")
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.body = body
        self.at_ns = time.monotonic_ns()


class Messages:
    """Cuts a stream of HTTP into messages; a body has a Content-Length, or none."""

    def __init__(self):
        self.data = b""

    def feed(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            message = Message(self.data[:end], b"")
            chunked = "chunked" in message.headers.get("transfer-encoding", "")
            if chunked:
                stop = self.data.find(b"0\r\n\r\n", end + 4)
                if stop < 0:
                    return
                body_end = stop + 5
                message.body = unchunk(self.data[end + 4 : body_end])
            else:
                body_end = end + 4 + int(message.headers.get("content-length", 0))
                if len(self.data) < body_end:
                    return
                message.body = self.data[end + 4 : body_end]
            self.data = self.data[body_end:]
            yield message


def unchunk(data):
    body = b""
    while data:
        size, data = data.split(b"\r\n", 1)
        body += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return body


class Exchange:
    """A request, and its answer, None as long as there is none."""

    def __init__(self, request):
        self.method, self.target, _ = request.start.split(" ", 2)
        self.headers = request.headers
        self.body = request.body
        self.at_ns = request.at_ns
        self.status = None
        self.answer = None

    def __repr__(self):
        return f"<{self.method} {self.target}: {self.status}>"


class Loop:
    """The thread of all gates."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def close(self):
        self.run(self.end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def end_tasks(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one turn for the transports to close their sockets


class Gate:
    def __init__(self, loop, address):
        self.loop = loop
        self.address = address
        self.port = take_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.mode = CARRY
        self.lose = 0  # so many answers are still to be lost
        self.lost = 0
        self.accepted = 0
        self.exchanges = []
        self.writers = set()
        self.server = loop.run(asyncio.start_server(self.serve, "127.0.0.1", self.port))

    async def serve(self, reader, writer):
        self.accepted += 1
        if self.mode == CLOSED:
            writer.transport.abort()
            return
        try:
            onward_reader, onward = await asyncio.open_connection(*self.address)
        except OSError:
            writer.transport.abort()
            return
        self.writers.update((writer, onward))
        waiting = []  # exchanges of this connection that have no answer yet
        try:
            await asyncio.gather(
                self.pump_requests(reader, onward, waiting),
                self.pump_answers(onward_reader, writer, waiting),
            )
        finally:
            self.writers.difference_update((writer, onward))
            writer.close()
            onward.close()

    async def pump_requests(self, reader, writer, waiting):
        messages = Messages()
        try:
            while data := await reader.read(CHUNK_BYTES):
                for message in messages.feed(data):
                    exchange = Exchange(message)
                    self.exchanges.append(exchange)
                    waiting.append(exchange)
                if self.mode == CARRY:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def pump_answers(self, reader, writer, waiting):
        messages = Messages()
        try:
            while data := await reader.read(CHUNK_BYTES):
                for message in messages.feed(data):
                    exchange = waiting.pop(0)
                    exchange.status = int(message.start.split(" ")[1])
                    exchange.answer = message
                if self.lose:
                    self.lose -= 1
                    self.lost += 1
                    break
                if self.mode == CARRY:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    # --- what a test does with it ---

    def deaf(self):
        """Connections stay, and are taken, but nothing passes: as behind a cut cable."""
        self.mode = DEAF

    def shut(self):
        """Open connections break, and new ones do."""
        self.mode = CLOSED
        self.loop.loop.call_soon_threadsafe(self.abort_all)

    def carry(self):
        """All is well again; connections that have lost bytes are closed."""
        if self.mode != CARRY:
            self.loop.loop.call_soon_threadsafe(self.abort_all)
        self.mode = CARRY

    def abort_all(self):
        for writer in list(self.writers):
            writer.transport.abort()

    def requests(self, start=""):
        """Exchanges whose "METHOD target" begins so."""
        return [e for e in self.exchanges if f"{e.method} {e.target}".startswith(start)]

    def close(self):
        async def end():
            self.server.close()
            self.abort_all()

        self.loop.run(end())
