"""Chooses the distance for a command over files: as wide as their size affords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simstream.cli.options import resolve_on_all_cores
from simstream.errors import SettingsError

if TYPE_CHECKING:
    from simstream.settings import Settings

AUTO: Final = "auto"


class FileSettings(NamedTuple):
    """Settings, and whether the size of the files decides the distance. Until then `distance` is None."""

    settings: Settings
    automatic: bool


def settle_for_files(config: str | None, flags: Mapping[str, Any]) -> FileSettings:
    """Return the settings of a command over files. Raises SettingsError.

    The distance is automatic if `flags` say so, or if neither they nor other settings name one.
    """
    said = (flags["distance"] or "").lower() == AUTO
    try:
        resolved = resolve_on_all_cores(config, **{**flags, "distance": None if said else flags["distance"]})
    except SettingsError as error:
        takes_auto = flags["distance"] is not None and error.what.startswith("distance ")
        raise SettingsError(error.what, error.todo + ", or auto" * takes_auto) from None
    return FileSettings(resolved.settings, said or resolved.origin["distance"] == "default")


def with_auto_distance(settings: Settings, size: int | None, *, confirmed: bool = False) -> Settings:
    """Return the settings with the widest distance that inputs of `size` bytes afford. Raises SettingsError.

    `confirmed`: the true J decides about candidates, so that they need no sketch.
    """
    from msgspec.structs import replace

    from simstream.text.recipe_file import load_recipe
    from simstream.tools.dedup.auto_distance import choose_distance, estimate_pages

    recipe, pages = load_recipe(settings.recipe), estimate_pages(size)
    return replace(settings, distance=choose_distance(recipe, pages, settings.similarity, confirmed=confirmed))
