"""Parses amounts of options, such as 10M pages or 64GB of memory, and says amounts as a person reads them."""

from __future__ import annotations

import re
from typing import Final

from simstream.errors import UsageError

_AMOUNT: Final = re.compile(r"((?:[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]+)(?:\.[0-9]+)?) ?([a-zA-Z]*)")
_COUNTS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_BYTES: Final = {"": 1, "b": 1} | {
    f"{letter}{end}": 1 << 10 * n for n, letter in enumerate("kmgt", 1) for end in ("", "b", "ib")
}
MAX_VALUE: Final = 1 << 62
_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def count(option: str, text: str) -> int:
    """Return a number that is written as 250000, 1_000_000, 10M or 8G. Raises UsageError."""
    return _amount(option, text, _COUNTS, "a number such as 250000, 10M or 8G")


def nbytes(option: str, text: str) -> int:
    """Return the bytes of 512MB, 64GB or 1.5TB; each unit is 1,024 of the one before. Raises UsageError."""
    return _amount(option, text, _BYTES, "bytes such as 512MB or 64GB")


def _amount(option: str, text: str, units: dict[str, int], wanted: str) -> int:
    found = _AMOUNT.fullmatch(text.strip())
    unit = units.get(found[2].lower()) if found else None
    # More than 30 digits exceed MAX_VALUE, and int() raises another error for thousands of digits.
    value = 0 if found is None or unit is None or len(text) > 30 else int(float(found[1].replace(",", "")) * unit)
    if not 0 < value <= MAX_VALUE:
        raise UsageError(f"{option} is {text[:40]!r}, which is not an amount", f"give {wanted}")
    return value


def say_bytes(number: int) -> str:
    """Return bytes as a person reads them, such as `1.5 MiB`."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number} bytes"


def say_count(number: int, noun: str) -> str:
    """Return a number of things in words, such as `1 verdict` or `1,200 verdicts`. The noun takes an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say_pages(number: int, verb_of_one: str = "", verb_of_many: str = "") -> str:
    """Return a number of pages in words, such as `1 page`, or `1,200 pages were` with a verb."""
    return f"{say_count(number, 'page')} {verb_of_one if number == 1 else verb_of_many}".rstrip()
