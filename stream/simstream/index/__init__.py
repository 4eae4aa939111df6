"""The index in memory: plans, entries, memtable, sorted segments with permuted tables, and exact queries."""

from simstream.index.index import Index
from simstream.index.matches import Matches
from simstream.index.plan import SCAN, Plan, choose

__all__ = ["SCAN", "Index", "Matches", "Plan", "choose"]
