"""Reads the demo's own pages: about a hundred, written for it, in Chinese and English."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from simstream.model import Record
from simstream.sources.file_pages import jsonl_records

DEMO = "demo"
"""The topic of the demo's records. It also stands for the path in the name of a page without id and URL."""


def demo_records(max_record_bytes: int = 1 << 20) -> Iterator[Record]:
    """Yield the records of `demo_pages.jsonl`, in order, as `read_pages` would."""
    with (resources.files("simstream.sources") / "demo_pages.jsonl").open("rb") as handle:
        yield from jsonl_records(handle, DEMO, max_record_bytes)
