"""What the tests share."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import fake  # noqa: E402
import leafd  # noqa: E402


@pytest.fixture
def cluster():
    with fake.Cluster(1) as one:
        yield one


@pytest.fixture
def three():
    with fake.Cluster(3) as one:
        yield one


class Patient:
    """As leafd's measure of how long an answer takes: no second node is asked within a test."""

    patience_s = 600.0

    def add(self, took_s):
        pass


@pytest.fixture
def open_client():
    """Makes clients that are closed with the test."""
    made = []

    def make(cluster, hedged=False, **settings):
        # Attempts and deadlines that are not the point of a test are long, so that what is counted
        # does not depend on the machine.
        made.append(leafd.Client(cluster.urls, **{"attempt_ms": 60000, "deadline_ms": 60000,
                                                  **settings}))
        if not hedged:
            made[-1]._usual = Patient()
        return made[-1]

    yield make
    for client in made:
        client.close()
