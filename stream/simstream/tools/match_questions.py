"""Turns pages of files into questions to the role `query`, for `simstream match`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simstream.sources.fields import FieldNames
from simstream.sources.read import read_pages
from simstream.text.decode import charset_of, decode
from simstream.wire import page as wire

MAX_PAGES = 64
MAX_BYTES = 2 << 20
"""About the greatest number of characters of one question; a larger page goes alone."""


class PageQuestion(NamedTuple):
    """A page. `content` has `text` or `html`; `reason` says why it is empty."""

    id: str
    content: dict[str, str]
    reason: str = ""


def asked(source: str, max_record_bytes: int, fields: FieldNames) -> Iterator[PageQuestion]:
    """Yield the pages of an input. Raises what `read_pages` raises."""
    limits = wire.PageLimits(max_record_bytes=max_record_bytes)
    for record in read_pages([source], max_record_bytes, fields):
        page = wire.decode(record, limits)
        if page.text is not None:
            yield PageQuestion(page.id, {"text": page.text}, page.reason)
        elif page.raw is None:
            yield PageQuestion(page.id, {"text": ""}, page.reason or "no_text")
        else:
            plain = page.content_type.lower().startswith("text/plain")
            raw = page.raw
            text = raw if isinstance(raw, str) else decode(raw, charset_of(page.content_type), not plain)[0]
            yield PageQuestion(page.id, {"text" if plain else "html": text}, page.reason)


def batches(pages: Iterable[PageQuestion]) -> Iterator[list[PageQuestion]]:
    """Yield pages in groups of at most MAX_PAGES and about MAX_BYTES."""
    batch: list[PageQuestion] = []
    size = 0
    for page in pages:
        length = sum(map(len, page.content.values()))
        if batch and (len(batch) == MAX_PAGES or size + length > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(page)
        size += length
    if batch:
        yield batch
