"""Snowflake ids against segment ids."""

from cases.common import TAG, ids_contender, single_leafd
from measure import Target

name = "snowflake"
title = "snowflake ids against segment ids, 64 connections"
text = """
One node on a core of its own hands out one id a request, from a segment and by time.
"""
targets = [Target("cpu_us", "snowflake", "segment", at_most=1.05)]
charts = ("cpu_us", "user_us", "rate")


def prepare(bench):
    leafd = single_leafd(bench)
    return [ids_contender(bench, leafd, name=kind, label=f"leafd, {kind}",
                          path=f"/api/{kind}/get/{TAG}", bound=True)
            for kind in ("segment", "snowflake")]
