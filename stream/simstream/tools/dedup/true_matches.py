"""Finds the texts that a page truly resembles: candidates come from the index, and J of the texts decides.

Texts lie in a temporary file, each distinct text once. Fingerprints and sketches only choose which texts are
compared. So their limits are wider than those of a match by the sketch, and short pages have no stricter ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.deduper import FingerprintedPages
from simstream.judge.policy import Policy
from simstream.judge.state import make_index
from simstream.model import PageKind
from simstream.tools.dedup.text_rows import TextRows, encoded, jaccards

SKETCH_MARGIN: Final = 0.25
"""A sketch of 256 bits says this much less than a J of .5 for one pair in 280,000, and less often for a greater
J."""
NO_TEXT: Final = -1
"""Stands for the text of a page that is not compared."""


class TextMatch(NamedTuple):
    """A text beside the text of a page."""

    text: int
    distance: int
    agreement: int
    jaccard: float


class LeastJaccard(NamedTuple):
    """The rule "J of the texts is at least `least`", and how many threads compute J."""

    least: float
    threads: int = 1

    @property
    def candidate_similarity(self) -> str:
        """Return the least similarity of sketches at which two texts are compared."""
        return f"{max(0.0, self.least - SKETCH_MARGIN):.4f}"

    def policy_id(self, policy: Policy) -> str:
        """Return 8 hex digits over the policy of candidates and the rule."""
        content = msgspec.json.encode([policy.id, "least_jaccard", self.least])
        return blake2b(content, digest_size=4, person=b"simstream policy").hexdigest()


def candidate_policy(policy: Policy) -> Policy:
    """Return the policy without stricter limits for short pages."""
    return replace(policy, short_words=0, short_distance=0, short_agreement=0)


class TrueMatcher(Closing):
    """Finds matches among all pages that were noted.

    Raises SimstreamError if the folder for temporary files is full. Memory: about 200 bytes a distinct text, and
    one answer of the index, of at most a million candidates, or the candidates of one page.
    """

    def __init__(self, policy: Policy, rule: LeastJaccard) -> None:
        self.policy = candidate_policy(policy)
        self._rule = rule
        self._index = make_index(self.policy)
        self._rows = TextRows()
        self._numbers: dict[bytes, int] = {}
        self._of_page = array("q")

    def note(self, batch: FingerprintedPages) -> NDArray[np.int64]:
        """Take the next pages; return the number of each page's text (n,), or NO_TEXT."""
        columns, known = batch.columns, len(self._rows)
        readable = columns.kind == PageKind.READABLE
        texts = np.full(len(columns), NO_TEXT, np.int64)
        for at in np.flatnonzero(readable).tolist():
            row = encoded(batch.pages[at].text)
            key = blake2b(row, digest_size=16)
            key.update(columns.fingerprint[at].tobytes() + columns.sketch[at].tobytes())
            texts[at] = self._numbers.setdefault(key.digest(), len(self._rows))
            if texts[at] == len(self._rows):
                self._rows.add(row)
        fresh, places = np.unique(texts, return_index=True)
        entries, places = fresh[fresh >= known].astype(np.uint32), places[fresh >= known]
        self._index.add(entries, columns.fingerprint[places], columns.sketch[places], None, None)
        self._of_page.extend(texts.tolist())
        return texts

    def matches(self, batch: FingerprintedPages, texts: NDArray[np.int64]) -> Iterator[Sequence[TextMatch]]:
        """Yield for each page of a noted batch the texts, its own among them, that match; none without a text."""
        columns, at = batch.columns, 0
        while at < len(texts):
            if texts[at] == NO_TEXT:
                yield ()
                at += 1
                continue
            end = at + int(np.argmax(np.append(texts[at:], NO_TEXT) == NO_TEXT))
            found = self._index.query(columns.fingerprint[at:end], columns.sketch[at:end], in_order=False)
            own = np.repeat(texts[at : at + found.done], np.diff(found.starts))
            alike = self._jaccards(own, found.entry)
            for n in range(found.done):
                span = slice(found.starts[n], found.starts[n + 1])
                good = span.start + np.flatnonzero(alike[span] >= self._rule.least)
                facts = (found.entry[good], found.distance[good], found.agreement[good], alike[good])
                yield list(map(TextMatch._make, zip(*(column.tolist() for column in facts), strict=True)))
            at += found.done

    def confirm(self, pages: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether J of the texts of two pages is large enough (n,). Pages are numbered as they came."""
        of_page = np.frombuffer(self._of_page, np.int64)
        return self._jaccards(of_page[pages], of_page[others]) >= self._rule.least

    def close(self) -> None:
        """Remove the temporary file. May be called twice."""
        self._index.close()
        self._rows.close()

    def _jaccards(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *jaccards(self._rows, a, b, self._rule.threads)])
