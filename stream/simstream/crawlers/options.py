"""Reads the settings of a Scrapy project: the names SIMSTREAM_* with their defaults."""

from __future__ import annotations

import os
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args

from simstream.errors import SettingsError

Links = Literal["probe", "drop", "deprioritize", "follow"]
_LEAST: Final = {
    "trials": 1,
    "held": 0,
    "duplicate_depth": 0,
    "wait": 0,
    "room_wait": 0,
    "in_flight": 1,
    "give_up_after": 1,
}
"""The least value of each number that has one."""


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """The settings of a project: each name in capitals, after SIMSTREAM_."""

    log: str | None = None
    """`kafka://HOST:PORT,…` or a directory (default: from variables or `simstream.toml`, as for every command)."""
    prefix: str | None = None
    """The topics' prefix (default: as for `log`)."""
    pages_topic: str | None = None
    """The full name of your own topic of pages (default: as for `log`)."""
    verdicts_topic: str | None = None
    """The full name of the topic of verdicts (default: as for `log`)."""
    config: str | None = None
    """The settings file, also with settings for TLS and SASL."""
    links: Links = "probe"
    """What happens to the links of a near duplicate.

    `probe`: when nothing else is left, a few links of each kind of address are tried, and more while they bring new
    pages. `drop`, `deprioritize` (fetch last) and `follow` treat all links alike.
    """
    trials: int = 8
    """Under `probe`, a kind of address is given up after so many near duplicates in a row."""
    priority: int = -100
    """The number that is added to a link's priority for each near duplicate in a row that leads to it."""
    held: int = 20_000
    """At most so many links are held back until nothing else is left. Further links are queued with their low
    priority, or dropped if their kind has been given up."""
    duplicate_depth: int = 0
    """So many near duplicates in a row are followed like other pages."""
    patterns: str | None = None
    """A file of `simstream patterns -o FILE`. Links that its patterns predict to be copies are not fetched."""
    drop_items: bool = False
    """Whether items of near duplicates are dropped."""
    wait: float = 5.0
    """Seconds that a response waits for its verdict. 0: pages are sent, and no link waits or is dropped."""
    room_wait: float = 10.0
    """Seconds that a response waits while too many pages wait for verdicts."""
    in_flight: int = 256
    """At most so many pages wait for verdicts at once."""
    give_up_after: int = 8
    """After so many pages in a row without a verdict, no page waits until a verdict comes."""


def options_of(settings: Any) -> CrawlOptions:
    """Return the options in Scrapy's settings. Raises SettingsError for a value that does not fit, and for an
    unknown name SIMSTREAM_*."""
    known = [f"SIMSTREAM_{field.name.upper()}" for field in fields(CrawlOptions)]
    for name in settings:
        if name.startswith("SIMSTREAM_") and name not in known:
            close = get_close_matches(name, known, 1, 0.85)
            todo = f"use {close[0]}, if you mean that" if close else f"remove it, or use one of {', '.join(known)}"
            raise SettingsError(f"{name} is no setting of a crawler", todo)
    options = CrawlOptions(**{field.name: _value(settings, field) for field in fields(CrawlOptions)})
    if options.links not in get_args(Links):
        raise SettingsError(
            f"SIMSTREAM_LINKS is {options.links!r}", f"use {', '.join(get_args(Links)[:-1])} or follow"
        )
    return options


def _value(settings: Any, field: Field[Any]) -> Any:
    """Return the value of a setting, read as the type of its default says."""
    full, default, least = f"SIMSTREAM_{field.name.upper()}", field.default, _LEAST.get(field.name)
    readers = {int: settings.getint, float: settings.getfloat, bool: settings.getbool}
    try:
        value = readers.get(type(default), settings.get)(full, default)
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingsError(
            f"{full} cannot be read ({error})", f"give a value such as its default, {default!r}"
        ) from None
    if default is None and value is not None:
        if not isinstance(value, str | os.PathLike):
            raise SettingsError(f"{full} is {value!r}", "give text, or leave it out")
        value = os.fspath(value)
    if least is not None and not value >= least:
        raise SettingsError(f"{full} is {value!r}", f"give {least} or more")
    return value
