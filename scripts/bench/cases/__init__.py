"""The cases, in the order in which they are run and reported.

A case is a module with the names
    name, title, text   what it is called, and what is measured, for the report
    targets             measure.Target, each a line of the report that says reached or not
    charts              the figures that its plot shows (measure.FIGURES)
    columns, told       if others are to be in the report's table and on the terminal
    rounds              if it takes more or fewer than others
    fair                True: it is run without real-time priority, whatever is asked for
    in_the_way(figures) paragraphs for the report on what stands in the way of a target that is not
                        reached; figures: of each contender the medians
    prepare(bench)      starts the servers by bench.start() and returns the contenders; those of
                        other servers (common.others) not with bench.base, where leafd is
                        measured against another build of it (compare.py)
"""

from cases import (after_idle, batch, clients, connections, contention, cover, disks, failover,
                   fair, grants, idle, idle_connections, ids, instructions, loops, million,
                   monotonic, nodes, pipelined, resp, restart, snowflake, start, strict,
                   strict_replicated, tail, tail_kill, tls)

CASES = [ids, pipelined, resp, instructions, batch, snowflake, tail, tail_kill, fair, grants,
         strict, strict_replicated, disks, monotonic, failover, cover, million, restart,
         connections, idle_connections, after_idle, loops, contention, nodes, idle, start, tls,
         clients]
