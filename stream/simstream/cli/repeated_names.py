"""Keeps repeated page names of different files apart, and reports them, for commands that read files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simstream.amounts import say_pages
from simstream.cli.progress import say

if TYPE_CHECKING:
    from simstream.sources.repeated_names import PageNames

MAX_WATCHED_NAMES: Final = 5_000_000
"""The number of names that `PageNames` remembers: about 100 MB."""


def report_merged(names: PageNames) -> None:
    """Say how many of the inputs' pages repeat an earlier page's name."""
    if names.repeated:
        say(
            f"{say_pages(names.repeated, 'has', 'have')} the id of an earlier page, but another input or another "
            "text: the service takes each for a new version of that page"
        )


def report_separated(names: PageNames | None) -> None:
    """Say how many pages repeat an earlier page's name."""
    if names is not None and names.repeated:
        say(
            f"{say_pages(names.repeated, 'has', 'have')} the id of an earlier page, but another input or another "
            "text: each is judged as a page ID@PLACE; add --versions to judge it as a new version of that page"
        )
