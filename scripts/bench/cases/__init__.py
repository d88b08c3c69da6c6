"""The cases, in the order in which they are run and reported.

A case is a module with the names
    name, title, text   what it is called, and what is measured, for the report
    targets             measure.Target, each a line of the report that says reached or not
    charts              the figures that its plot shows (measure.FIGURES)
    prepare(bench)      starts the servers by bench.start() and returns the contenders
"""

from cases import grants, strict

CASES = [grants, strict]
