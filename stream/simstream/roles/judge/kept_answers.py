"""Checks, as a judge starts, that the topic `matches` still has the answers that it needs."""

from __future__ import annotations

import logging

from simstream.errors import WrongLog
from simstream.judge.answer_book import AnswerBook, few_shards
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES
from simstream.roles.match.answered_frames import shards_without

_logger = logging.getLogger("simstream.judge")


def check_kept_answers(log: Log, book: AnswerBook, frame: int, published: int) -> None:
    """Raise WrongLog if a judge at this `frame` would wait for ever for an answer that was removed.

    Matchers that start answer frames from the `published` one on again, and earlier frames never. Asks the log a
    few questions, and reads answers only of shards that lack some.
    """
    topic, needed = log.topic(MATCHES).name, book.offsets(frame)
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    for shard, offset in enumerate(needed):
        if ends[shard] < offset:
            raise WrongLog(
                f"{topic} ends at offset {ends[shard]} in partition {shard}, and the state has read up to {offset}",
                "if that topic was deleted and created again, give judges and matchers empty folders; else check "
                "that --state belongs to this log",
            )
    cut = [shard for shard, offset in enumerate(needed) if offset < lows[shard]]
    lost = shards_without(log, book.is_own, cut, frame)
    if not lost:
        return
    what = f"{topic} has no answer of shard {few_shards(lost)} to frame {frame} any more"
    if frame < published:
        raise WrongLog(
            f"{what}: no matcher gives it again, and no state reaches that far",
            "give the folder of the last judge's state with --state, or bring up shards under another --matches",
        )
    if frame < log.end_offsets(FINGERPRINTS)[0]:
        _logger.warning("%s: if this judge waits for it, start the matchers again: they answer it anew", what)
