"""Snowflake ids against segment ids."""

from cases.common import TAG, load_command, single_leafd
from measure import Contender, Target

name = "snowflake"
title = "snowflake ids against segment ids, 64 connections"
text = """
One node on a core of its own hands out one id a request, from a segment and by time.
"""
targets = [Target("cpu_us", "snowflake", "segment", at_most=1.05)]
charts = ("cpu_us", "user_us", "rate")


def prepare(bench):
    leafd = single_leafd(bench)

    def contender(kind):
        return Contender(kind, f"leafd, {kind}", [leafd], load_command(
            bench, leafd.addresses, "--expect", "ids:1", f"/api/{kind}/get/{TAG}", bound=True))

    return [contender("segment"), contender("snowflake")]
