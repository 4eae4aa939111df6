"""Pages of one name, in the commands that judge files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stream.cli.progress import say

if TYPE_CHECKING:
    from stream.model import Record
    from stream.sources.names import Names


WATCHED: Final = 5_000_000
"""Names that are remembered of pages that go to a service; some 150 MB."""


def apart(records: Iterable[Record], names: Names | None) -> Iterable[Record]:
    """The records, with other pages of one name apart. None: all of one name are versions of one page."""
    return records if names is None else names.apart(records)


def say_together(names: Names) -> None:
    """Tell how many of the pages that went to a service have a name that came before."""
    if names.again:
        say(
            f"{names.again:,} of them have an id that came before, in another input or with another text: the "
            "service takes pages of one id for versions of one page, and the last counts"
        )


def say_apart(names: Names | None) -> None:
    """Tell how many pages have a name that came before."""
    if names is not None and names.again:
        say(
            f"{names.again:,} pages have an id that came before, in another input or with another text: they are "
            "other pages, named ID@PLACE; --versions takes them for versions of one page"
        )
