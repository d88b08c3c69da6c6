"""Leaf as it is to its database: a server that takes segments from leaf_alloc by Leaf's own
statements, and clients that take ids from it one after the other. What Leaf does around that (two
buffers, growing steps) changes no number that is handed out.

A database that is away is waited for. A segment that the database refuses is told to the client as
Refused: that is the guard.
"""

import threading

try:
    import pymysql
except ImportError:  # the tests that need it are skipped
    pymysql = None

TABLE = """CREATE TABLE leaf_alloc (
  biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint NOT NULL DEFAULT 1, step int NOT NULL,
  description varchar(256) DEFAULT NULL,
  update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
"""
REFUSED = 1644  # SIGNAL


class Refused(Exception):
    """The database refused a new segment."""


class LeafServer:
    def __init__(self, socket, database="leaf"):
        self.where = {"unix_socket": socket, "user": "root", "database": database}
        self.lock = threading.Lock()
        self.segments = {}  # tag: [next, end)
        self.connection = None
        self.closing = threading.Event()

    def take(self, tag, count):
        """(first, last) of up to so many ids, from one segment; None: the server is closing."""
        with self.lock:
            first, end = self.segments.get(tag, (0, 0))
            while first == end:
                if self.closing.is_set():
                    return None
                try:
                    first, end = self.update_and_get(tag)
                except pymysql.err.InternalError as error:  # lost in the middle
                    self.forget(error)
                except pymysql.err.OperationalError as error:
                    self.forget(error)
            last = min(first + count, end) - 1
            self.segments[tag] = (last + 1, end)
            return first, last

    def update_and_get(self, tag):
        """IDAllocDaoImpl.updateMaxIdAndGetLeafAlloc(): both statements are one transaction."""
        if self.connection is None:
            self.connection = pymysql.connect(**self.where)
        with self.connection.cursor() as cursor:
            cursor.execute("UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = %s", tag)
            cursor.execute("SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = %s", tag)
            _, max_id, step = cursor.fetchone()
        self.connection.commit()
        return max_id - step, max_id

    def forget(self, error):
        if self.connection is not None:
            if self.connection.open:
                self.connection.close()
            self.connection = None
        if error.args[0] == REFUSED:
            raise Refused(error.args[1]) from error
        self.closing.wait(0.01)

    def close(self):
        self.closing.set()
        with self.lock:
            if self.connection is not None and self.connection.open:
                self.connection.close()


class LeafClient(threading.Thread):
    """Takes ids from a server until it is stopped, or refused; every one goes to the history."""

    def __init__(self, history, server, number, tag, count=10, pause_s=0.002):
        super().__init__(daemon=True)
        self.history, self.server, self.tag = history, server, tag
        self.count, self.pause_s = count, pause_s
        self.track = history.track(f"leaf-client-{number}", f"leaf-{id(server)}", tag)
        self.closing = threading.Event()
        self.refused = False
        self.fault = None

    def run(self):
        try:
            while not self.closing.wait(self.pause_s):
                taken = self.server.take(self.tag, self.count)
                if taken is None:
                    return
                self.track.add(*taken)
        except Refused:
            self.refused = True
        except Exception as error:  # seen by stop()
            self.fault = error

    def stop(self):
        self.closing.set()
        self.join(30)
        assert not self.is_alive() and self.fault is None, self.fault
