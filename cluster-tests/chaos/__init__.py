"""Chaos: a cluster of real leafd processes, faults drawn from a seed, and a judge of the history.

  run.py        the program: cluster, clients, faults, end, verdict
  schedule.py   what is done when: a pure function of the seed
  nemesis.py    does it: processes, links, disks, clocks, members
  links.py      the proxies between the nodes
  disks.py      file systems of the nodes' own, rules for disk_shim.c, damage to data files
  clients.py    the load: a process for each node, and one that administers
  history.py    what a client saw, as records of fixed size
  monitor.py    what the nodes say of themselves, ten times a second
  health.py     which node could serve when: where an error is permitted
  judge.py      everything that has to hold, found out at the end
  report.py     the page

All times are CLOCK_MONOTONIC of the one machine that all of it runs on.
"""
