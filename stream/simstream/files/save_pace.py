"""Decides when the next save is due: after a time or a number of pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simstream.errors import SettingsError

SHARE: Final = 20
"""Saving takes at most this part of the time: one in so many."""


class SavePace:
    """Says when a save is due: after `pages` pages or `seconds` seconds, whichever comes first.

    A save is never due so soon that saving takes more than a twentieth of the time. `clock` gives seconds.
    Raises SettingsError for numbers that are not above 0.
    """

    def __init__(self, pages: int, seconds: float, clock: Callable[[], float]) -> None:
        if pages < 1 or not seconds > 0:
            raise SettingsError(
                f"a state cannot be saved every {pages} pages or {seconds} s", "give numbers above 0"
            )
        self._pages, self._seconds, self._clock = pages, seconds, clock
        self._saved_at, self._rest, self._behind = clock(), 0.0, 0

    def is_due(self, pages: int) -> bool:
        """Whether to save now that `pages` pages were judged."""
        since = self._clock() - self._saved_at
        if pages == self._behind or since < self._rest:
            return False
        return pages - self._behind >= self._pages or since >= self._seconds

    def note_failure(self) -> None:
        """Note that saving failed: try again when it is due the next time."""
        self._saved_at = self._clock()
        self._rest = self._seconds

    def note_save(self, pages: int, took_s: float = 0.0) -> None:
        """Note that `pages` pages are saved, and that saving took `took_s` seconds."""
        self._saved_at, self._rest, self._behind = self._clock(), took_s * SHARE, pages
