"""Judges the pages of files for `dedup`: by the sketch, as a service does, or by the true J of the texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simstream.cli.dedup_outputs import FurtherOutputs
from simstream.closing import Closing
from simstream.tools.dedup.true_judge import TrueJudge
from simstream.tools.dedup.true_matches import LeastJaccard

if TYPE_CHECKING:
    from simstream.deduper import Deduper, FingerprintedPages
    from simstream.deduper.state import BatchJournal
    from simstream.model import Record, Verdict
    from simstream.settings import Settings


class FileJudge(Closing):
    """Judges records, and tells `extras` of each page, pair and verdict. With a `rule`, the true J decides."""

    def __init__(self, deduper: Deduper, threads: int, extras: FurtherOutputs, rule: LeastJaccard | None) -> None:
        self._deduper, self._threads, self._extras = deduper, threads, extras
        self._true: TrueJudge | None = None
        if rule is not None:
            self._true = TrueJudge(deduper.policy, rule, extras.take_pairs if extras.wants_pairs else None)
            extras.judge_by(self._true.matcher)

    def stream(self, records: Iterable[Record], journal: BatchJournal | None = None) -> Iterator[Verdict]:
        """Yield one verdict for each record, in order. Raises what `Deduper.stream` raises.

        `journal`: as there; None with a `rule`.
        """
        seen = self._extras.note_pages
        if self._true is None:
            verdicts = self._deduper.stream(records, self._threads, seen, journal)
        else:
            verdicts = self._true.stream(self._deduper.fingerprinted(records, self._threads), seen)
        for verdict in verdicts:
            yield verdict
            self._extras.take(verdict)

    def take_known(self, batches: Iterable[tuple[FingerprintedPages, list[Verdict]]]) -> Iterator[Verdict]:
        """Yield the verdicts of batches that an earlier run has judged."""
        for batch, verdicts in batches:
            self._extras.note_pages(batch)
            for verdict in verdicts:
                yield verdict
                self._extras.take(verdict)

    def close(self) -> None:
        """Remove the temporary files. May be called twice."""
        if self._true is not None:
            self._true.close()


def with_candidates(settings: Settings, rule: LeastJaccard) -> Settings:
    """Return the settings with the least similarity of candidates, unless they name one. Raises SettingsError."""
    from msgspec.structs import replace

    from simstream.text.recipe_file import load_recipe

    if settings.similarity is not None or not load_recipe(settings.recipe).sketch_bits:
        return settings
    return replace(settings, similarity=rule.candidate_similarity)
