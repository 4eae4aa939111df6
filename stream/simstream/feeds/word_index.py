"""Finds pages by the words of their titles and sites."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import Final

from simstream.feeds.title_words import TitleWords

SLICE_PAGES: Final = 2048
"""The number of pages in one slice of a search, which takes less than 1 ms."""
_NONE: Final[frozenset[str]] = frozenset()


class WordIndex:
    """The pages of every word. Coming and leaving cost a page's own words; about 100 bytes a word of a page."""

    def __init__(self, words: TitleWords) -> None:
        self._words = words
        self._pages: dict[str, str | set[str]] = {}
        """By word. Most words are of one page, which then stands alone: a set would take 200 bytes."""

    def __len__(self) -> int:
        return len(self._pages)

    def put(self, page_id: str, text: str) -> None:
        """Put in a page that is not there yet."""
        for word in self._words.of_title(text):
            known = self._pages.setdefault(word, page_id)
            if isinstance(known, set):
                known.add(page_id)
            elif known != page_id:
                self._pages[word] = {known, page_id}

    def take(self, page_id: str, text: str) -> None:
        """Take out a page, which was put in with this text."""
        for word in self._words.of_title(text):
            known = self._pages[word]
            if isinstance(known, set) and len(known) > 1:
                known.remove(page_id)
            else:
                del self._pages[word]

    def find(self, words: Iterable[str]) -> Generator[None, None, list[str]]:
        """Return the pages that have all of these words, at least one. Yields after each slice.

        Cost: proportional to the pages of the rarest word. Pages may come and leave in between: the answer holds
        for the moment at which each was looked at.
        """
        rarest, *others = sorted(map(self._of, words), key=len)
        found: list[str] = []
        candidates = list(rarest)
        for start in range(0, len(candidates), SLICE_PAGES):
            some = candidates[start : start + SLICE_PAGES]
            found += [page for page in some if page in rarest and all(page in other for other in others)]
            yield
        return found

    def _of(self, word: str) -> Collection[str]:
        known = self._pages.get(word, _NONE)
        return known if isinstance(known, (set, frozenset)) else (known,)
