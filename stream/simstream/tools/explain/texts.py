"""Reads the text of a page from its record."""

from __future__ import annotations

from typing import NamedTuple

from simstream.model import Record, fingerprint_hex
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire.page import PageLimits, decode


class PageText(NamedTuple):
    """The text of a page's record. `text` is None if the record has none, or if `missing` says why it is not known.

    `detail` says why a page was not compared. `cut`: only its beginning was fingerprinted.
    """

    text: str | None
    missing: str | None = None
    detail: str | None = None
    cut: bool = False


def read_text(
    fingerprinter: Fingerprinter,
    limits: PageLimits,
    original: Record | str,
    page_id: str,
    fingerprint: int | None = None,
) -> PageText:
    """Return the text of the page with this id and, if given, this fingerprint (0: it has none).

    `original` is the page's record, or why it is gone. It is read as `fingerprinter` reads it.
    """
    if isinstance(original, str):
        return PageText(None, original)
    page = decode(original, limits)
    columns = fingerprinter.columns([page])
    if page.id != page_id:
        return PageText(None, f"another page, {page.id}, is there now")
    now = int(columns.fingerprint[0])
    if fingerprint is not None and now != fingerprint:
        sketch = int.from_bytes(columns.sketch[0].tobytes(), "little")
        shown = fingerprint_hex(now, sketch, fingerprinter.recipe.fingerprints)
        what = f"the page there now has the fingerprint {shown}: its text changed, or was read differently"
        return PageText(None, what, page.detail or None)
    return PageText(page.text, None, page.detail or None, page.cut)
