"""Refuses HTML that would take a tree builder far too long."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simstream.kernels.html.element_names import NAMES
from simstream.kernels.html.markup import survey
from simstream.kernels.html.open_tags import COUNTS, TAGS, make_open
from simstream.kernels.html.tags import make_html


class MarkupCounts(NamedTuple):
    """What a page costs a tree builder; see `kernels.html.open_tags.OpenTags`."""

    tags: int
    depth: int
    levels: int
    clones: int
    attributes: int
    choices: int


LIMITS: Final = MarkupCounts(
    tags=400_000, depth=1_000, levels=100_000, clones=1_000, attributes=500, choices=10_000_000
)
"""A page beyond one of these is refused. None of 537 real pages reached a third of any. Browsers stop at depth
512."""
SLOPES: Final = MarkupCounts(tags=0, depth=0, levels=50_000, clones=125, attributes=0, choices=300_000)
"""How much more of each is allowed for every thousand tags."""
_SENTENCES: Final = (
    f"has more than {LIMITS.tags:,} tags",
    f"nests deeper than {LIMITS.depth:,} elements",
    f"has its elements on average more than {SLOPES.levels // 1000} sections deep",
    "leaves formatting unclosed that would be opened again and again",
    f"has a tag with more than {LIMITS.attributes} attributes",
    "has a list of more options than are read, some 3,000",
)
_LIMITS, _SLOPES = (np.array(counts, np.int64) for counts in (LIMITS, SLOPES))


def refusal(html: bytes) -> str:
    """Return a sentence for the dead letter that says why this HTML is refused; empty if it is not.

    `html` is in UTF-8, or in a character set for which `is_ascii_based` holds. Counts without the GIL.
    """
    state = make_open(LIMITS.depth)
    survey(make_html(html), NAMES, _LIMITS, _SLOPES, state)
    counts = state.num[:COUNTS]
    over = counts > _LIMITS + _SLOPES * counts[TAGS] // 1000
    return f"the HTML {_SENTENCES[int(over.argmax())]}" if over.any() else ""
