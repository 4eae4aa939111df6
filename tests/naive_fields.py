"""The obvious way from a path to the fields of a page: recursion over the tree, and one pass for each field."""

from __future__ import annotations

from typing import Any

JOINED = ("title", "text", "html")
TYPES: dict[str, tuple[type, ...]] = {"id": (str, int), "time": (str, int, float), "status": (int,)}
"""The types that a field may have; every other field is a string."""


def values_at(tree: Any, steps: list[str]) -> list[Any]:
    """All values at the end of the path, in order, without null."""
    if isinstance(tree, list):
        return [value for item in tree for value in values_at(item, steps)]
    if not steps:
        return [] if tree is None else [tree]
    return values_at(tree.get(steps[0]), steps[1:]) if isinstance(tree, dict) else []


def meets_array(tree: Any, steps: list[str]) -> bool:
    """Whether an array lies on the path or at its end."""
    if isinstance(tree, list) or not steps:
        return isinstance(tree, list)
    return isinstance(tree, dict) and meets_array(tree.get(steps[0]), steps[1:])


def field_at(tree: Any, path: str, name: str) -> Any:
    """The field of a page: None if it is absent."""
    steps = path.split(".")
    values = values_at(tree, steps)
    if not values:
        return None
    if not meets_array(tree, steps):
        return values[0]
    if name not in JOINED:
        return values
    strange = [value for value in values if not isinstance(value, str)]
    return strange[0] if strange else "\n".join(values)


def fits(value: Any, name: str) -> bool:
    """Whether the field may have this value."""
    return isinstance(value, TYPES.get(name, (str,))) and not isinstance(value, bool)


def own_form(tree: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
    """The fields of the page under their own names, without those that are absent."""
    content = [name for name in ("text", "html") if name in paths] or ["text", "html"]
    names = ["id", "url", "title", *content, "time", "status"]
    found = {name: field_at(tree, paths.get(name, name), name) for name in names}
    return {name: value for name, value in found.items() if name in paths or fits(value, name)}
