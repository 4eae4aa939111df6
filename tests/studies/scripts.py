"""Mirrored pages in traditional and simplified script: how many match, with and without the recipe's option.

News items and technical articles are converted by OpenCC, character by character (`s2t`), to the characters of Hong
Kong (`s2hk`) and of Taiwan (`s2tw`), and with Taiwan's words as well (`s2twp`), as real mirrors differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from simstream.text.recipe import Recipe
from tests.studies.context import LCTT, NEWS, StudyContext
from tests.studies.measure import StudyTable, cell, share

CONVERSIONS = ("s2t", "s2hk", "s2tw", "s2twp")
PAGES = 600
OPTION = "script"


def run(context: StudyContext) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for corpus in (NEWS, LCTT):
        docs = context.docs(corpus)
        chosen = context.random(f"scripts {corpus}").sample(docs, min(len(docs), context.some(PAGES)))
        texts = [doc.text for doc in chosen]
        mirrored = {
            name: [converted(text) for text in texts] for name in CONVERSIONS for converted in [_converter(name)]
        }
        result[corpus] = {
            script: {name: _matched(context, recipe, texts, mirrored[name]) for name in CONVERSIONS}
            for script, recipe in recipes(context.recipe).items()
        }
    return result


def recipes(recipe: Recipe) -> dict[str, Recipe]:
    """Return the recipe with each value of the option, if it has the option."""
    if OPTION not in {field.name for field in fields(recipe)}:
        return {"as-is": recipe}
    values: tuple[Any, ...] = ("as-is", "simplified")
    return {value: replace(recipe, script=value) for value in values}


def _converter(name: str) -> Callable[[str], str]:
    from opencc import OpenCC

    found: Callable[[str], str] = OpenCC(name).convert
    return found


def _matched(context: StudyContext, recipe: Recipe, texts: list[str], mirrored: list[str]) -> dict[str, Any]:
    a, b = context.prints(texts, recipe), context.prints(mirrored, recipe)
    hit, same = context.matched(a, b, recipe), a.fingerprint == b.fingerprint
    readable = (a.words >= recipe.min_words) & (b.words >= recipe.min_words)
    return {
        "matched": share(int(hit[readable].sum()), int(readable.sum())),
        "same_fingerprint": share(int(same[readable].sum()), int(readable.sum())),
    }


def tables(result: dict[str, Any]) -> list[StudyTable]:
    lines = [
        (f"{corpus}, script {script}", *(_both(found[name]) for name in CONVERSIONS))
        for corpus, scripts in result.items()
        for script, found in scripts.items()
    ]
    return [StudyTable("Pages and their mirrors: matched %; same fingerprint %", ("", *CONVERSIONS), lines)]


def _both(found: dict[str, Any]) -> str:
    same = found["same_fingerprint"]["share"]
    return f"{cell(found['matched'])}; {'-' if same is None else f'{100 * same:.1f}'}"
