"""The RESP listener of nodes, and load on it by redis-py."""

import time

import redis

from load import LoadClient
from ports import take_port


def open_resp(cluster, **settings):
    """Before a start: each node has the listener, at node.resp_port."""
    for node in cluster.nodes:
        node.resp_port = take_port()
        node.settings.update({"resp-listen": f"127.0.0.1:{node.resp_port}", **settings})
    return cluster


def connect(node, **options):
    """redis-py as it is out of the box."""
    return redis.Redis(host="127.0.0.1", port=node.resp_port, **options)


class Answer:
    """The times of an answer, as the checker wants them."""

    def __init__(self, sent_ns):
        self.sent_ns = sent_ns
        self.received_ns = time.monotonic_ns()


class RespLoadClient(LoadClient):
    """The same by INCR and INCRBY: depth of them in a pipeline, count ids each."""

    def serve_one_connection(self):
        node = self.node
        if not self.wait_for_node():
            return
        incarnation = node.incarnation
        client = connect(node, socket_timeout=30)
        try:
            self.take_ids(client)
        except (redis.ConnectionError, redis.TimeoutError):
            if node.serving and node.incarnation == incarnation:
                raise
            self.reconnects += 1
        finally:
            client.close()

    def take_ids(self, connection):
        due = time.monotonic()
        step = self.count * self.depth / self.rate
        while not self.load.stopping.is_set():
            before = time.monotonic()
            sent_ns = time.monotonic_ns()
            pipeline = connection.pipeline(transaction=False)
            for _ in range(self.depth):
                pipeline.incrby(self.load.tag, self.count)
            lasts = pipeline.execute()
            answer = Answer(sent_ns)
            for last in lasts:
                self.track.add(last - self.count + 1, last, answer)
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before)
            due = max(due + step, now - 1.0)
            if due > now:
                self.load.stopping.wait(due - now)


def add_resp_clients(load, cluster, rate=4000.0):
    """One client a node: of single ids in pipelines, or of batches."""
    for number, node in enumerate(cluster.nodes):
        count, depth = [(1, 16), (100, 1), (1, 1)][number % 3]
        client = RespLoadClient(load, f"resp{number}", node, count, "plain", depth, rate, None)
        load.clients.append(client)
    return load
