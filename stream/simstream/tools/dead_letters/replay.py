"""Sends the pages of dead letters to `pages` again, with key, headers and value unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from simstream.amounts import say_pages
from simstream.errors import BrokerUnreachable, RecordTooLarge
from simstream.log.base import Appender, Log
from simstream.log.options import DEAD_LETTERS, PAGES
from simstream.tools.dead_letters.later_versions import LaterVersions
from simstream.tools.dead_letters.letters import MARK, REPLAYED_FROM, DeadLetter, LetterFilter, letters
from simstream.wire.page import PageLimits

MAX_LETTERS_AT_ONCE = 500
MAX_BYTES_AT_ONCE = 16 << 20
"""Letters, and their bytes, that are sent before they are marked."""
PATIENCE_S = 60.0


@dataclass(slots=True)
class LetterReplay:
    """What happened to the letters. `reasons` counts the letters that were sent, or would be sent, by reason."""

    topic: str
    sent: int = 0
    cut: int = 0
    """The topic has only the beginning of these pages."""
    before: int = 0
    """These letters have a mark: they were replayed before."""
    failed_again: int = 0
    """These pages were replayed before, and failed again."""
    newer: int = 0
    """These pages have come again since: a newer version counts."""
    unknown: int = 0
    """Whether these pages have come again is not known: `pages` no longer has all records behind them."""
    refused: int = 0
    """The topic `pages` does not allow records of this size."""
    foreign: int = 0
    """These letters are of pages of another topic, whose service writes to the same topic of dead letters."""
    reasons: Counter[str] = field(default_factory=Counter)


def replay(
    log: Log,
    letter_filter: LetterFilter,
    limits: PageLimits,
    *,
    limit: int | None = None,
    again: bool = False,
    dry: bool = False,
) -> LetterReplay:
    """Send the pages of letters again, each once, at most `limit`. With `dry`, write nothing.

    Skips letters of another topic's pages, and cut ones. Unless `again`, also skips letters that were replayed
    before, pages that failed after a replay, and pages that came again in their partition, or may have: see
    LaterVersions. A letter is marked when its page is acknowledged: after a crash in between, its page counts as
    one that came again. Another replay at the same time sends all pages twice.

    Raises LogLocked on a local log while a fingerprinter or `feed` runs, BrokerUnreachable, DeliveryFailed, and
    what LaterVersions raises.
    """
    report = LetterReplay(log.topic(PAGES).name)
    chosen = islice(_choose(log, letter_filter, limits, again, report), limit)
    if dry:
        for letter in chosen:
            report.sent += 1
            report.reasons[letter.reason] += 1
        return report
    with log.open_appender(DEAD_LETTERS) as marks, log.open_appender(PAGES) as pages:
        dead = log.topic(DEAD_LETTERS).name
        for batch in _batches(chosen):
            _send(pages, marks, batch, dead, report)
    return report


def _choose(
    log: Log, letter_filter: LetterFilter, limits: PageLimits, again: bool, report: LetterReplay
) -> Iterator[DeadLetter]:
    """Yield the letters to send, and count the others."""
    later = None
    if not again:
        uncounted = LetterReplay(report.topic)
        fitting = (one for one in letters(log, letter_filter) if _fits(one, again, uncounted))
        later = LaterVersions(log, fitting, limits)
    for letter in letters(log, letter_filter):
        if not _fits(letter, again, report):
            continue
        is_newer = later is not None and later.has(letter)
        if is_newer is None:
            report.unknown += 1
        elif is_newer:
            report.newer += 1
        else:
            yield letter


def _fits(letter: DeadLetter, again: bool, report: LetterReplay) -> bool:
    if letter.source_topic != report.topic:
        report.foreign += 1
    elif letter.cut:
        report.cut += 1
    elif letter.replayed and not again:
        report.before += 1
    elif letter.failed_again and not again:
        report.failed_again += 1
    else:
        return True
    return False


def _batches(chosen: Iterable[DeadLetter]) -> Iterable[list[DeadLetter]]:
    batch: list[DeadLetter] = []
    size = 0
    for letter in chosen:
        batch.append(letter)
        size += letter.size
        if len(batch) >= MAX_LETTERS_AT_ONCE or size >= MAX_BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _send(pages: Appender, marks: Appender, batch: list[DeadLetter], dead: str, report: LetterReplay) -> None:
    """Append the pages, wait for the acknowledgements, and mark the letters."""
    sent: dict[int, DeadLetter] = {}
    for letter in batch:
        headers = [header for header in letter.headers if header[0] != REPLAYED_FROM]
        headers.append((REPLAYED_FROM, f"{dead}/{letter.place}".encode()))
        try:
            sent[pages.append(letter.record.value, letter.record.key, headers)] = letter
        except RecordTooLarge:
            report.refused += 1
    _settle(pages, sent, report)
    for letter in sent.values():
        report.sent += 1
        report.reasons[letter.reason] += 1
        marks.append(None, letter.record.key, [(MARK, letter.place.encode())], partition=0)
    marks.flush(PATIENCE_S)


def _settle(pages: Appender, sent: dict[int, DeadLetter], report: LetterReplay) -> None:
    """Wait until all are acknowledged. Remove from `sent` what only the broker found too large."""
    while True:
        try:
            done = pages.flush(PATIENCE_S)
        except RecordTooLarge as error:
            sent.pop(error.number or 0, None)
            report.refused += 1
            continue
        if done < max(sent, default=0):
            raise BrokerUnreachable(
                f"{say_pages(len(sent), 'was', 'were')} not acknowledged",
                "run the replay again: it sends the pages that did not arrive",
            )
        return
