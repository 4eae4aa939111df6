"""Settings of a Scrapy project: the names SIMSTREAM_* with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from simstream.errors import SettingsError

Links = Literal["probe", "drop", "deprioritize", "follow"]


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """What a project may set, each as SIMSTREAM_ and the name in capitals."""

    log: str | None = None
    """`kafka://HOST:PORT,…` or a directory; without it, as every command finds it (variables, `simstream.toml`)."""
    prefix: str | None = None
    """The topics' prefix; likewise."""
    config: str | None = None
    """The settings file, for TLS and SASL too."""
    links: Links = "probe"
    """What becomes of the links of a near duplicate. `probe`: a few links of each kind of address are tried when
    nothing else is left, and more as long as they bring new pages. `drop`, `deprioritize` (fetch last) and `follow`
    treat all links alike."""
    trials: int = 8
    """Under `probe`: near duplicates in a row after which a kind of address is given up."""
    priority: int = -100
    """Added to the priority of a near duplicate's link for each near duplicate in a row that leads to it."""
    held: int = 20_000
    """Links that are held back until nothing else is left, at most. A further link is queued with its low priority,
    or dropped if its kind has been given up."""
    duplicate_depth: int = 0
    """So many near duplicates in a row are followed all the same."""
    drop_items: bool = False
    """Whether items of near duplicates are dropped."""
    wait: float = 5.0
    """Seconds that a response waits for its verdict; 0: pages are sent, and nothing waits or is dropped."""
    room_wait: float = 10.0
    """Seconds that a response waits while too many pages are on their way."""
    in_flight: int = 256
    """Pages on their way at once."""
    give_up_after: int = 8
    """So many pages in a row without a verdict, and nothing waits any more until a verdict comes."""


def options_of(settings: Any) -> CrawlOptions:
    """The options in Scrapy's settings. Raises SettingsError for a value that does not fit."""
    defaults = CrawlOptions()
    options = CrawlOptions(
        log=settings.get("SIMSTREAM_LOG"),
        prefix=settings.get("SIMSTREAM_PREFIX"),
        config=settings.get("SIMSTREAM_CONFIG"),
        links=settings.get("SIMSTREAM_LINKS", defaults.links),
        trials=_number(settings.getint, "TRIALS", defaults.trials, least=1),
        priority=_number(settings.getint, "PRIORITY", defaults.priority),
        held=_number(settings.getint, "HELD", defaults.held, least=0),
        duplicate_depth=_number(settings.getint, "DUPLICATE_DEPTH", defaults.duplicate_depth, least=0),
        drop_items=_number(settings.getbool, "DROP_ITEMS", defaults.drop_items),
        wait=_number(settings.getfloat, "WAIT", defaults.wait, least=0),
        room_wait=_number(settings.getfloat, "ROOM_WAIT", defaults.room_wait, least=0),
        in_flight=_number(settings.getint, "IN_FLIGHT", defaults.in_flight, least=1),
        give_up_after=_number(settings.getint, "GIVE_UP_AFTER", defaults.give_up_after, least=1),
    )
    if options.links not in get_args(Links):
        raise SettingsError(
            f"SIMSTREAM_LINKS is {options.links!r}", f"use {', '.join(get_args(Links)[:-1])} or follow"
        )
    return options


def _number(get: Any, name: str, default: Any, least: float | None = None) -> Any:
    full = f"SIMSTREAM_{name}"
    try:
        value = get(full, default)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{full} cannot be read ({error})", f"its default is {default!r}") from None
    if least is not None and not value >= least:
        raise SettingsError(f"{full} is {value!r}", f"give {least:g} or more")
    return value
