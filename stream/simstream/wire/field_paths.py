"""Finds the fields of a page in JSON of another form, by paths such as `body.content`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from simstream.errors import SettingsError

FIELD_NAMES = ("id", "url", "title", "text", "html", "time", "status")
"""The fields that a path can name."""
HEADER = "header:"
"""What the path of an id begins with, if the id is a header of the record."""
MAX_STEPS = 16
"""The most names that a path may have. So looking costs at most 16 passes over an array."""
MAX_ITEMS = 50_000
"""The most items that one pass over an array looks at. With more, the field is of a wrong type: a stranger's page
costs no more than some long articles."""
MAX_JOINED = 1 << 28
"""The most bytes of text that are joined; with more, the field is of a wrong type. No recipe reads more."""
MAX_JOINED_SHORT = 1 << 16
MAX_JOINED_RATIO = 8
"""At most so many bytes of text, or so many for each byte of a value, are joined: a string that stands in the
value's schema costs no memory until it is joined, and a batch of records is bounded by their bytes."""
_JOINED = ("title", "text", "html")
_CONTENT = ("text", "html")

Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Where the pages of a topic have their fields. `parse_paths` makes it.

    `paths` has the path of each named field, as it was given. A field without a path has its own name. It counts as
    absent if its type is wrong. If `text` or `html` has a path, the other one counts only if it has a path, too.
    """

    paths: Mapping[str, str]
    steps: tuple[tuple[str, Steps], ...]
    """The way to each field that is read from the JSON."""
    id_header: str | None
    """The header with the id, in lower case."""

    @property
    def names_id(self) -> bool:
        """Whether the id comes from a named field. Then the field counts before the record's key."""
        return "id" in self.paths and self.id_header is None

    def find_fields(self, tree: dict[str, object], size: int = MAX_JOINED) -> dict[str, object]:
        """Return the fields of a page by their own names; an absent one is missing or None.

        `size`: the bytes of the page's value. Cost: about 0.2 us a field, and a pass over each array on the way for
        each name of the path.
        """
        most = min(MAX_JOINED, max(MAX_JOINED_SHORT, size * MAX_JOINED_RATIO))
        return {name: value_at(tree, steps, name in _JOINED, most) for name, steps in self.steps}

    def explain_no_text(self) -> str:
        """Return a sentence about a page without text and HTML."""
        named = [f"no {name} at {self.paths[name]}" for name in _CONTENT if name in self.paths]
        return " and ".join(named) or "the page has neither `text` nor `html`"


def parse_path(name: str, path: str) -> Steps:
    """Return the names along a path; none for a header. Raises SettingsError."""
    what = f"fields.{name} is {path!r}"
    if name == "id" and path.startswith(HEADER):
        if not path.removeprefix(HEADER).strip():
            raise SettingsError(what, "name the header, such as header:doc-id")
        return ()
    steps = tuple(path.split("."))
    if path.startswith(HEADER):
        raise SettingsError(what, "name a field of the JSON: only fields.id can be a header")
    if steps[0] == "$":
        raise SettingsError(what, "leave out $., and begin with the first name, such as body.content")
    if not all(steps):
        raise SettingsError(what, "write names with one dot between two of them, such as body.content")
    if len(steps) > MAX_STEPS:
        raise SettingsError(what, f"write at most {MAX_STEPS} names")
    return steps


def parse_paths(given: Mapping[str, str | None]) -> FieldPaths | None:
    """Return the paths of these fields; None if no field has a path. Raises SettingsError for a malformed path, and
    if `text` and `html` have one path."""
    paths = {name: path for name, path in given.items() if path is not None}
    if not paths:
        return None
    if "text" in paths and paths.get("html") == paths["text"]:
        raise SettingsError(
            f"fields.text and fields.html are both {paths['text']!r}",
            "keep fields.html if the field holds HTML, else fields.text",
        )
    ways = {name: parse_path(name, path) for name, path in paths.items()}
    own = [name for name in FIELD_NAMES if name not in _CONTENT or not paths.keys() & set(_CONTENT)]
    ways = {name: (name,) for name in own} | ways
    header = paths.get("id", "")
    id_header = header.removeprefix(HEADER).strip().lower() if header.startswith(HEADER) else None
    return FieldPaths(paths, tuple((name, steps) for name, steps in ways.items() if steps), id_header)


def value_at(tree: object, steps: Steps, is_joined: bool, most: int = MAX_JOINED) -> object:
    """Return the value at the end of the way; None if the way does not lead to one.

    The values of arrays on the way, or at its end, are joined by line breaks if `is_joined` and they take at most
    `most` bytes of memory.
    """
    for number, step in enumerate(steps):
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list):
            return _value_of_array(tree, steps[number:], is_joined, most)
        else:
            return None
    return _value_of_array(tree, (), is_joined, most) if isinstance(tree, list) else tree


def _value_of_array(array: list[object], steps: Steps, is_joined: bool, most: int) -> object:
    """Return the strings at the end of the ways from an array's items, joined by line breaks; None without any.

    Returns a value that is no string, if there is one, and the list of values for a field that is never joined.
    Returns the array itself if a pass would look at more than MAX_ITEMS items, or the strings take more than `most`
    bytes of memory.
    """
    try:
        values = [*_items(array)]
        for step in steps:
            values = [*_items(value.get(step) for value in values if isinstance(value, dict))]
    except _TooManyItems:
        return array
    values = [value for value in values if value is not None]
    if not values or not is_joined:
        return values or None
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        return next(value for value in values if not isinstance(value, str))
    held = sum(len(text) if text.isascii() else 4 * len(text) for text in texts)  # as Python holds most of them
    return "\n".join(texts) if held <= most else array


class _TooManyItems(Exception):
    """A pass has looked at MAX_ITEMS items."""


def _items(values: Iterable[object]) -> Iterator[object]:
    """Yield the values in order, and the items of an array, however deep, in its place. Raises _TooManyItems."""
    waiting, looked = [iter(values)], 0
    while waiting:
        for value in waiting[-1]:
            looked += 1
            if looked > MAX_ITEMS:
                raise _TooManyItems
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            yield value
        else:
            waiting.pop()
