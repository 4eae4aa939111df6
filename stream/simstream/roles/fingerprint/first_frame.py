"""Reads the log's first frame, which fixes the recipe of the log.

Retention may have removed all frames. The published position then still has the recipe.
"""

from __future__ import annotations

import logging

from simstream.errors import FrameDamaged, WrongRecipe
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS
from simstream.text.recipe import name_recipe
from simstream.wire import frame as frames
from simstream.wire import position as positions

_logger = logging.getLogger("simstream.fingerprint")


def first_header(log: Log) -> frames.FrameHeader | None:
    """Return the header of the log's first readable frame, or None while the log has none. Raises FrameFormat."""
    with log.open_reader(FINGERPRINTS, 0) as reader:
        while True:
            at_end = reader.caught_up()
            records = reader.poll(1, 0.2)
            for record in records:
                try:
                    return frames.decode(record.value or b"").header
                except FrameDamaged:
                    continue
            if not records and at_end:
                return None


def recipe_id_of_log(log: Log) -> str | None:
    """Return the recipe of the log's first readable frame; if retention removed all frames, that of the published
    position. None for a new log, and for an emptied one whose position is missing, of another log, or of a version
    that wrote no recipe.

    Raises FrameFormat, and WrongLog for an unreadable position.
    """
    return _recipe_id(log, first_header(log))


def _recipe_id(log: Log, header: frames.FrameHeader | None) -> str | None:
    if header is not None:
        return header.recipe
    if not log.low_watermarks(FINGERPRINTS)[0] or log.partitions_of(POSITIONS) is None:
        return None
    with log.open_publisher() as publisher:
        data = publisher.committed()
    published = positions.decode(data) if data is not None else None
    if published is None or published.log_id != log.topic(FINGERPRINTS).id:
        return None
    return published.recipe or None


def check_recipe(log: Log, recipe_id: str) -> frames.FrameHeader | None:
    """Raise WrongRecipe if the log began under another recipe, and FrameFormat if a newer version began it.

    Returns what `first_header` returns.
    """
    header = first_header(log)
    theirs = _recipe_id(log, header)
    if theirs is not None and theirs != recipe_id:
        raise wrong_recipe(theirs, recipe_id)
    return header


def warn_of_other_pages(log: Log, header: frames.FrameHeader | None) -> None:
    """Log a warning if the oldest frame has pages of another topic: they are compared with those of this one."""
    pages = log.topic(PAGES).name
    if header is not None and header.topic != pages:
        _logger.warning(
            "the oldest frame has pages of %s, and this service reads %s: pages of both are compared with each "
            "other. If they should not be, stop it, and give %s another --prefix",
            header.topic,
            pages,
            pages,
        )


def wrong_recipe(theirs: str, mine: str) -> WrongRecipe:
    """Return the error for a log of another recipe."""
    return WrongRecipe(
        f"the log began under recipe {theirs}, this process has recipe {mine}",
        f"use {name_recipe(theirs)}, or another --prefix",
    )
