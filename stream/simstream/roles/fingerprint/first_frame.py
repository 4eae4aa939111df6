"""Reads the log's first frame, which fixes the recipe of the log."""

from __future__ import annotations

from simstream.errors import FrameDamaged, WrongRecipe
from simstream.log.base import FINGERPRINTS, Log
from simstream.text.recipe import name_recipe
from simstream.wire import frame as frames


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


def check_recipe(log: Log, recipe_id: str) -> None:
    """Raise WrongRecipe if the log began under another recipe, and FrameFormat if a newer version began it."""
    header = first_header(log)
    if header is not None and header.recipe != recipe_id:
        raise wrong_recipe(header.recipe, recipe_id)


def wrong_recipe(theirs: str, mine: str) -> WrongRecipe:
    """Return the error for a log of another recipe."""
    return WrongRecipe(
        f"the log began under recipe {theirs}, this process has recipe {mine}",
        f"use {name_recipe(theirs)}, or another --prefix",
    )
