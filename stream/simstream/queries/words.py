"""Cuts the texts in a question into words, in bounded numbers."""

from __future__ import annotations

from typing import Any, Final

from fastapi import HTTPException

from simstream.queries.limits import MAX_TOKEN_BYTES
from simstream.queries.models import TokensQuestion
from simstream.text.extraction.extract import without_lone_surrogates
from simstream.text.fingerprinter import Fingerprinter

MAX_TOKENS: Final = 1 << 19
"""The greatest number of words in one answer: about those of 1 MB of English, with spaces."""


def words_of(fingerprinter: Fingerprinter, asked: TokensQuestion) -> list[list[Any]]:
    """Return the tokens of each text, or its words with weights. Raises HTTPException for too many.

    Cost: at most about a second and 200 MB.
    """
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in asked.texts)
    if size > MAX_TOKEN_BYTES:
        raise HTTPException(
            413, f"the texts have {size} bytes, and at most {MAX_TOKEN_BYTES} are cut at once: send fewer texts"
        )
    results: list[list[Any]] = []
    count = 0
    for text in map(without_lone_surrogates, asked.texts):  # no answer could hold these
        results.append(
            _weighted(fingerprinter, asked, text)
            if asked.mode == "weights"
            else fingerprinter.jieba_tokens(text, asked.mode, asked.hmm)
        )
        count += len(results[-1])
        if count > MAX_TOKENS:
            raise HTTPException(
                413,
                f"the texts have more than {MAX_TOKENS} words: send fewer texts, or set `top`",
            )
    return results


def _weighted(fingerprinter: Fingerprinter, asked: TokensQuestion, text: str) -> list[dict[str, Any]]:
    rows = fingerprinter.weighted(text)[: asked.top]
    return [{"word": word, "times": times, "weight": round(weight, 4)} for word, times, weight in rows]
