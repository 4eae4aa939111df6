"""The index: finds all live entries within a distance. Plans, memtable, sorted segments, merging."""

from simstream.index.index import Index
from simstream.index.matches import Matches
from simstream.index.plan import SCAN, Plan, choose

__all__ = ["SCAN", "Index", "Matches", "Plan", "choose"]
