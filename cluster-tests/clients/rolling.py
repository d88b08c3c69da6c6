"""Asks nodes for ids over keep-alive connections of http.client while they are restarted one after
the other: see test_rolling_restart.py for what is printed."""

import http.client
import sys
import threading
import time
from urllib.parse import urlsplit

stopped = threading.Event()
counts = []


# A node that stops ends no connection before it was idle for half a second. A request that meets
# the end of one was not read: http.client leaves it to its users to repeat it.
IDLE_S = 0.49


def ask(connection, path):
    connection.request("GET", path)
    reply = connection.getresponse()
    reply.read()
    if reply.status != 200:
        print(f"cut: status {reply.status}", flush=True)


def run(urls, first):
    at = first
    asked = 0
    connection = None
    asked_s = 0.0
    while not stopped.is_set():
        time.sleep(asked % 5 * 0.003)
        url = urlsplit(urls[at % len(urls)])
        idle_s = time.monotonic() - asked_s if connection else 0
        asked_s = time.monotonic()
        # It opens a new connection by itself after a reply that was the last.
        connection = connection or http.client.HTTPConnection(url.hostname, url.port, timeout=15)
        try:
            asked += 1
            ask(connection, url.path)
        except (OSError, http.client.HTTPException) as error:
            unread = isinstance(error, (ConnectionResetError, BrokenPipeError)) and idle_s >= IDLE_S
            if not unread and not isinstance(error, ConnectionRefusedError):
                print(f"cut: {error!r}", flush=True)
            connection.close()
            connection = None
            at += 1
    counts.append(asked)


def main(urls):
    threads = [threading.Thread(target=run, args=(urls, i // 2)) for i in range(2 * len(urls))]
    for thread in threads:
        thread.start()
    print("started", flush=True)
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()
    print(f"asked: {sum(counts)}", flush=True)


main(sys.argv[1:])
