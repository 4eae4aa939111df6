"""Turns the pages that a program hands over into records, and refuses what is not a page."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from simstream.errors import UsageError
from simstream.judge.candidates import Candidate
from simstream.model import PYTHON, FingerprintColumns, Page, Record
from simstream.sources.fields import UNUSABLE, encoded, integer_of
from simstream.wire.page import NO_TIME, PageFields

_MISSING = ("NAType", "NaTType")
"""How pandas calls what stands for an absent value."""
_WHOLE = ("id", "status")
"""Fields that may be whole numbers, which a DataFrame may have as floats."""
_NUMBERED = re.compile(f"{PYTHON}/0/[0-9]+")
"""Names of pages that were handed over without id and URL."""


class ExplainedPage(NamedTuple):
    """A page before it is judged, and all that it would be compared with.

    Examples:
        >>> with Deduper() as deduper:
        ...     explained = deduper.explain("Too short to compare.")
        >>> explained.page.reason, explained.candidates, explained.live_pages
        ('few_words', [], 0)
    """

    page: Page
    """The page: its `text`, and a `reason` if it cannot be compared."""
    columns: FingerprintColumns
    """One row: the page's `fingerprint`, `sketch` and number of distinct `words`."""
    candidates: list[Candidate]
    """Live pages, closest first. `rejected_by` is the rule that refuses the pair, or None if the two match."""
    live_pages: int
    """The number of live pages."""
    stream_time: int | None
    """The latest time of all judged pages in ms since 1970, or None before the first readable page."""


def page_record(page: Mapping[str, Any] | str, number: int) -> Record:
    """Return the record of a page that was handed over as the page with this number. Raises TypeError."""
    content: Mapping[str, Any] = {"text": page} if isinstance(page, str) else page
    if not isinstance(content, Mapping):
        raise TypeError(f"a page is a mapping of its fields, or a text, not {type(page).__name__}")
    for name in PageFields.__struct_fields__:
        if isinstance(content.get(name), bytes | bytearray | memoryview):  # JSON would hold them as Base64
            raise TypeError(f"the field {name!r} of a page is bytes, not a str: decode it, or use `judge_table`")
    try:
        value = _encode_fields(content) if _has_float(content) else encoded(content)
    except (TypeError, ValueError, RecursionError):
        value = _encode_fields(content)
    return Record(topic=PYTHON, partition=0, offset=number, key=None, value=value, timestamp=NO_TIME)


def _has_float(content: Mapping[str, Any]) -> bool:
    return any(isinstance(content.get(name), float | Decimal) for name in _WHOLE)


def _encode_fields(content: Mapping[str, Any]) -> bytes:
    """Return the fields of a page in JSON. Its values may be those of a DataFrame's row. Raises TypeError."""
    found: dict[str, Any] = {}
    for name in PageFields.__struct_fields__:
        value: Any = content.get(name)
        bits = 8 * getattr(getattr(value, "dtype", None), "itemsize", 8)
        if type(value).__name__ in _MISSING:
            continue
        if isinstance(value, datetime):
            value = value.isoformat()
        elif callable(item := getattr(value, "item", None)):  # a scalar of numpy
            is_time = getattr(getattr(value, "dtype", None), "kind", "") == "M"
            value = value.astype("datetime64[ms]").item() if is_time else item()  # of ns, `item` is only a number
        if name in _WHOLE:
            value = integer_of(value, bits)
        try:
            encoded({name: value})
        except TypeError:
            raise TypeError(
                f"the field {name} of a page has the type {type(value).__name__}, which JSON has not"
            ) from None
        except (ValueError, RecursionError):  # an integer of too many digits, or nested too deeply
            value = UNUSABLE
        found[name] = value
    return encoded(found)


def refuse_foreign_number(page: Page, record: Record) -> None:
    """Raise UsageError if a page's id or URL is the name of another page, which came without id and URL."""
    if record.topic != PYTHON or not _NUMBERED.fullmatch(page.id) or page.id == f"{PYTHON}/0/{record.offset}":
        return
    raise UsageError(
        f"the page with the number {record.offset} has the id {page.id!r}, the name of a page without an id",
        "give it another id",
    )


def refuse_single(function: str, wanted: str, given: object) -> None:
    """Raise TypeError, which says what to pass, for a value that does not iterate by pages or texts."""
    if isinstance(given, str | bytes | Mapping):
        raise TypeError(f"{function} takes {wanted}, not one {type(given).__name__}: put it into a list")
    if hasattr(given, "columns") or hasattr(given, "column_names"):
        kind = type(given).__name__
        advice = "pass its rows: to_dict('records') of pandas, to_dicts() of polars, to_pylist() of pyarrow"
        raise TypeError(f"{function} takes {wanted}, not a {kind}: {advice}, or one column of texts as a list")
    if not hasattr(given, "__iter__") and not hasattr(given, "__getitem__"):
        raise TypeError(f"{function} takes {wanted}, not {type(given).__name__}: give a list of them")


def refuse_no_record(given: Record) -> Record:
    """Return a record; raise TypeError, which says what to call, for anything else."""
    if not isinstance(given, Record):
        raise TypeError(
            f"stream takes objects Record, not {type(given).__name__}: give texts and mappings to judge"
        )
    return given


def refuse_unnamed(arguments: tuple[object, ...]) -> None:
    """Raise TypeError, which says what to write, for arguments of Deduper without a name."""
    if arguments:
        first = repr(arguments[0])
        raise TypeError(
            f"Deduper takes no unnamed argument such as {first}: "
            f"write Deduper(recipe={first}) for a recipe, Deduper(path={first}) for a folder of state"
        )


def folder_of(argument: str, given: str | Path | None) -> Path | None:
    """Return the folder that an argument of Deduper names, whatever the working directory will be.

    Raises UsageError if no folder has such a name.
    """
    if given is not None and (not str(given) or "\0" in str(given)):
        raise UsageError(f"{argument} is {str(given)!r}, which names no folder", "name a folder, or leave it out")
    if given is not None and os.path.exists(given) and not os.path.isdir(given):
        raise UsageError(f"{argument} is {str(given)!r}, which is no folder", "name a folder, or leave it out")
    try:
        return None if given is None else Path(given).absolute()
    except FileNotFoundError:
        raise UsageError(
            "the working directory was removed", f"change to another one, or give {argument} as an absolute path"
        ) from None
