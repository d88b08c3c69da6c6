#!/usr/bin/python3
"""loud - clients that take as much as they get, for the case `fair`.

    loud.py HOST:PORT CONNECTIONS SECONDS PATH [--bulk]

Each connection asks again as soon as it has its reply. What comes is not looked at but for its
status and length, so that the machine's time goes to the server. Prints the replies and
the bytes. With --bulk each request is a POST of 10,000 tags, the same ones each time.
Exit code 1 if a reply was not 200.
"""
import json
import selectors
import socket
import sys
import time

PIECE = 256 << 10


class Client:
    """One connection: `left` bytes of the present reply are still to come."""

    def __init__(self, address, request):
        self.socket = socket.create_connection(address)
        self.socket.setblocking(False)
        self.request = request
        self.left = 0
        self.replies = 0
        self.taken = 0

    def ask(self):
        self.socket.setblocking(True)
        self.socket.sendall(self.request)
        self.socket.setblocking(False)

    def take(self, buffer):
        """Read once, and ask again behind the end of a reply."""
        count = self.socket.recv_into(buffer)
        if count == 0:
            raise SystemExit("loud: the server closed a connection")
        self.taken += count
        if self.left == 0:
            head, _, body = bytes(buffer[:count]).partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 ") or b"Content-Length: " not in head:
                raise SystemExit(f"loud: {head[:200]}")
            self.left = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            count = len(body)
        self.left -= count
        if self.left == 0:
            self.replies += 1
            self.ask()


def bulk_request(path, host):
    body = json.dumps([{"tag": f"loud.{i}", "step": 1000} for i in range(10000)])
    return (f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def main():
    address, connections, seconds, path, *bulk = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    if bulk:
        request = bulk_request(path, address)
    clients = [Client((host, int(port)), request) for _ in range(int(connections))]
    selector = selectors.DefaultSelector()
    buffer = memoryview(bytearray(PIECE))
    end = time.monotonic() + float(seconds)
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.ask()
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            key.data.take(buffer)
    print(sum(client.replies for client in clients), sum(client.taken for client in clients))


if __name__ == "__main__":
    main()
