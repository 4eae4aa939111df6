"""Chooses what extracts the pages of a recipe: processes with a parser, or a kernel in the caller's thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from simstream.compiling import CompilingProcess
from simstream.text import probes
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.recipe import HtmlPart

if TYPE_CHECKING:
    from simstream.text.extraction.fast import FastExtractor

NICE: Final = 10
"""By how much the compiling of kernels that only HTML needs gives way to that of kernels for every page."""


def make_extractor(
    part: HtmlPart, workers: int, timeout: float, memory_bytes: int, clock: Callable[[], float] | None = None
) -> ExtractionPool | FastExtractor:
    """Return what extracts this part of HTML; the other arguments are those of `ExtractionPool`.

    With the part `fast` they do not matter: no process ever starts.
    """
    if part != "fast":
        return ExtractionPool(workers, timeout, memory_bytes, clock)
    from simstream.text.extraction.fast import FastExtractor  # other recipes do not need this kernel

    return FastExtractor()


def extraction_process(part: HtmlPart) -> CompilingProcess:
    """Return a process that compiles every kernel that `part` needs."""
    return CompilingProcess(__name__, "_compile", part.encode())


def _compile() -> None:
    part = cast(HtmlPart, sys.stdin.read())
    os.nice(NICE)
    if part == "fast":
        from simstream.text.extraction.fast import warm_fast

        warm_fast()
    else:
        from simstream.text.extraction.refused_html import refusal

        refusal(probes.HTML)
    from simstream.kernels.text.json_string import string_in_utf8
    from simstream.kernels.text.utf8 import is_utf8

    string_in_utf8(b'"\\n"')
    is_utf8(b"")


def extraction_digests(part: HtmlPart) -> tuple[str, ...]:
    """Return digests of the tables that this part of HTML depends on, besides what probes show."""
    if part != "fast":
        return ()
    from simstream.text.extraction.article import article_digest

    return (article_digest(),)
