"""`simstream tokens`: show how a text is cut into tokens, or its words with weights."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from simstream.cli.options import field_options, recipe_option, settle
from simstream.cli.progress import say
from simstream.errors import UsageError
from simstream.terminal import json_for, printable

if TYPE_CHECKING:
    from simstream.settings import Settings
    from simstream.sources.fields import FieldNames
    from simstream.text.dictionary import Mode
    from simstream.text.fingerprinter import Fingerprinter


@click.command("tokens")
@click.argument("text", required=False)
@click.option(
    "-i", "--input", "source", metavar="INPUT", help="Take pages instead of a text: JSONL, HTML, a folder."
)
@click.option(
    "--mode",
    type=click.Choice(["accurate", "search", "full"]),
    help="Cut in this mode of jieba (default: that of the recipe).",
)
@click.option("--no-hmm", is_flag=True, help="Do not use the hidden Markov model for unknown words.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show only the N heaviest words.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array a page.")
@field_options
@recipe_option
def command(
    text: str | None,
    source: str | None,
    mode: Mode | None,
    no_hmm: bool,
    top: int | None,
    as_json: bool,
    text_field: str | None,
    id_field: str | None,
    **flags: Any,
) -> None:
    """Show the tokens that jieba gives for TEXT as it is written.

    With --recipe, fold the text first, as for a fingerprint, and show the recipe's words, the heaviest words first.
    Of HTML, show the part that the recipe extracts. With --top and without --recipe, show what jieba's extract_tags
    returns. With -i, both show a page's id above its words, except with --json. Without TEXT and -i, read the text
    from stdin.
    """
    if text is not None and source is not None:
        raise UsageError("both a text and --input were given", "give one of them")
    weighted = flags["recipe"] is not None
    if top is not None and not weighted and mode not in (None, "accurate"):
        raise UsageError(
            f"--top needs jieba's accurate mode, and --mode is {mode}", "leave out --mode, or add --recipe"
        )
    settings = settle(flags.pop("config"), **flags)
    import msgspec

    from simstream.sources.fields import FieldNames
    from simstream.text.extraction.extract import without_lone_surrogates
    from simstream.text.fingerprinter import Fingerprinter
    from simstream.text.recipe_file import load_recipe

    recipe = load_recipe(settings.recipe)
    recipe = replace(recipe, hmm=recipe.hmm and not no_hmm, mode=mode or recipe.mode)
    with Fingerprinter(recipe, settings.cache_folder, say=say) as fingerprinter:
        for name, found in _texts(text, source, settings, FieldNames(text_field, id_field), fingerprinter):
            page_text = without_lone_surrogates(found)  # no encoding can print these
            heading = "" if name is None else f"{printable(name)}:\n"
            rows: list[Any]
            if weighted:
                rows = [
                    [word, times, round(weight, 4)] for word, times, weight in fingerprinter.weighted(page_text)
                ]
                rows = rows[:top]
                plain = heading + "\n".join(
                    f"{weight:10.4f}  {times:>4} x  {printable(word)}" for word, times, weight in rows
                )
            elif top is not None:
                rows = fingerprinter.tags(page_text, top)
                plain = heading + "\n".join(map(printable, rows))
            else:
                rows = fingerprinter.jieba_tokens(page_text)
                plain = " / ".join(map(printable, rows))
            click.echo(json_for(sys.stdout, msgspec.json.encode(rows)) if as_json else plain)


def _texts(
    text: str | None, source: str | None, settings: Settings, fields: FieldNames, fingerprinter: Fingerprinter
) -> Iterator[tuple[str | None, str]]:
    """Yield the id and the text of each page of a file, or one text without an id.

    Of HTML it is what counts for the fingerprinter. Says which pages have none.
    """
    if text is not None:
        yield None, text
    elif source is None:
        from simstream.sources.lines import standard_input

        if sys.stdin.isatty():
            say("reading the text from stdin: end it with Ctrl-D")
        yield None, standard_input().readall().decode("utf-8", "replace")
    else:
        from simstream.model import PageKind
        from simstream.sources.read import read_pages
        from simstream.wire.page import PageLimits, decode

        limits = PageLimits(max_record_bytes=settings.max_record_bytes)
        for record in read_pages([source], settings.max_record_bytes, fields):
            page = decode(record, limits)
            fingerprinter.extract([page])
            if page.kind == PageKind.UNREADABLE:
                say(f"{page.id} is unreadable: {page.detail or page.reason}")
            elif page.kind != PageKind.READABLE:
                say(f"{page.id} has no text that counts: {page.detail or page.kind.name.lower().replace('_', ' ')}")
            yield page.id, page.text or ""
