"""The index in memory: plans, entries, memtable, sorted segments with permuted tables, and exact queries."""

from stream.index.index import Index
from stream.index.matches import Matches
from stream.index.plan import SCAN, Plan, choose

__all__ = ["SCAN", "Index", "Matches", "Plan", "choose"]
