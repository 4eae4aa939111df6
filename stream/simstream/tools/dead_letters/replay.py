"""Sends the pages of dead letters to `pages` again, with key, headers and value unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from simstream.errors import BrokerUnreachable, RecordTooLarge
from simstream.log.base import Appender, Log
from simstream.log.options import DEAD_LETTERS, PAGES
from simstream.tools.dead_letters.letters import MARK, REPLAYED_FROM, DeadLetter, LetterFilter, letters

MAX_LETTERS_AT_ONCE = 500
MAX_BYTES_AT_ONCE = 16 << 20
"""Letters, and their bytes, that are sent before they are marked. After a crash at most so many are sent twice."""
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
    refused: int = 0
    """The topic `pages` does not allow records of this size."""
    foreign: int = 0
    """These letters are of pages of another topic, whose service writes to the same topic of dead letters."""
    reasons: Counter[str] = field(default_factory=Counter)


def replay(
    log: Log, letter_filter: LetterFilter, *, limit: int | None = None, again: bool = False, dry: bool = False
) -> LetterReplay:
    """Send the pages of letters again, each once, at most `limit`. With `dry`, write nothing.

    Skips letters of another topic's pages, and cut ones. Unless `again`, also skips letters that were replayed
    before, and pages that failed after a replay. A letter is marked when its page is acknowledged: a crash in
    between sends up to MAX_LETTERS_AT_ONCE pages twice, as versions of one page, and another replay at the same
    time sends all of them twice. Raises LogLocked on a local log while a fingerprinter or `feed` runs,
    BrokerUnreachable, DeliveryFailed.
    """
    report = LetterReplay(log.topic(PAGES).name)
    chosen = islice((one for one in letters(log, letter_filter) if _fits(one, again, report)), limit)
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
                f"{len(sent)} pages were not acknowledged",
                "run the replay again: it sends all pages without a mark",
            )
        return
