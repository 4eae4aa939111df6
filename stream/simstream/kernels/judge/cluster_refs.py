"""Cluster references: a cluster record's number, or the negative row for a cluster of one page.

Kernels inline these functions. `judge/numbers` gives the same functions to Python, with types.
"""

from __future__ import annotations

from simstream.kernels.jit import inlined


@inlined
def lone_cluster(row):  # type: ignore[no-untyped-def]
    """Return the reference to the cluster whose only page has this row."""
    return -row


@inlined
def is_lone(cluster):  # type: ignore[no-untyped-def]
    """Return whether a reference is to a cluster of one page, which has no record."""
    return cluster < 0


@inlined
def only_row(cluster):  # type: ignore[no-untyped-def]
    """Return the row of the only page of a lone cluster."""
    return -cluster
