"""Reads a user's own recipe: a TOML file that changes settings of a preset."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from simstream.errors import InputMissing, SettingsError
from simstream.text.recipe import FILES, PRESETS, Recipe, at_least, preset
from simstream.text.word_lists import SHIPPED


def load_recipe(name: str | Path) -> Recipe:
    """Return the preset of this name, or the recipe of a file.

    A file names what differs from the preset `base`, by default from `default`. Paths in a file are relative to
    the file. The recipe's `name` is the file's stem unless the file names another.

    Args:
        name: "default", "google2007", "fnv1-tf", "shingles", or the path of a file that ends in `.toml`.

    Raises:
        SettingsError: There is no such preset, or the file holds an unknown key or value.
        InputMissing: The file cannot be read.

    Examples:
        >>> from simstream import load_recipe
        >>> load_recipe("google2007").distance
        3
    """
    path = Path(name)
    return _from_file(path) if path.suffix.lower() == ".toml" else preset(str(name))


def _advice(unknown: str) -> str:
    close = get_close_matches(unknown.casefold(), sorted(Recipe.__slots__), 1, 0.8)
    return f"use {close[0]}, if you mean that" if close else "remove it"


def _from_file(path: Path) -> Recipe:
    try:
        # Numbers stay as they are written, so a similarity is exact.
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=str)
    except OSError as error:
        raise InputMissing(f"{path} cannot be read ({error.strerror})", "name a recipe or its file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read as TOML ({error})", "correct the file") from error
    base = given.pop("base", "default")
    unknown = sorted(set(given) - set(Recipe.__slots__))
    if unknown:
        raise SettingsError(f"{path} has {unknown[0]!r}, which is not a setting of a recipe", _advice(unknown[0]))
    if not isinstance(base, str) or base not in PRESETS:
        raise SettingsError(f"base is {base!r} ({path})", f"use {' or '.join(PRESETS)}")
    changes = {"name": path.stem} | {key: _value(path, key, value) for key, value in given.items()}
    try:
        return replace(PRESETS[base], **_fitting(PRESETS[base], changes))
    except SettingsError as error:
        raise SettingsError(f"{error.what} ({path})", error.todo) from None


def _fitting(base: Recipe, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes, and drop what of the base does not fit them.

    That is a milder rule for short pages, and lookups by words of a sketch that is too small or not mixed.
    """
    asked = {field: changes.get(field, getattr(base, field)) for field in ("distance", "similarity", "min_words")}
    left_out: dict[str, Any] = {}
    if base.short_words <= asked["min_words"]:
        left_out["short_words"] = 0
    if base.short_distance is not None and base.short_distance > asked["distance"]:
        left_out["short_distance"] = None
    if base.short_similarity is not None and not at_least(base.short_similarity, asked["similarity"]):
        left_out["short_similarity"] = None
    bits, fill = (changes.get(field, getattr(base, field)) for field in ("sketch_bits", "sketch_fill"))
    if 64 * base.sketch_lookups >= bits or fill != "mixed":
        left_out["sketch_lookups"] = 0
    return left_out | changes


def _value(path: Path, key: str, value: Any) -> Any:
    """Return a value of a recipe file in the setting's type. Paths are relative to the recipe file."""
    if key.endswith("similarity") and isinstance(value, int):
        value = str(value)
    kind = get_type_hints(Recipe)[key]
    try:
        found = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        possible = get_args(kind) if get_origin(kind) is Literal else ()
        advice = f"use {' or '.join(map(str, possible))}" if possible else f"give another value: {error}"
        raise SettingsError(f"{key} is {value!r} ({path})", advice) from error
    if key not in FILES:
        return found
    if any("\0" in name for name in ([found] if isinstance(found, str) else found)):
        raise SettingsError(f"{key} is {value!r} ({path})", "leave the NUL out")
    if isinstance(found, str):
        return os.path.join(path.parent, found)
    shipped = SHIPPED if key == "stop_words" else ()
    # join keeps the "." of "./zh", so a file zh differs from the shipped list zh
    return tuple(name if name in shipped else os.path.join(path.parent, name) for name in found)
