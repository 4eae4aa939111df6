"""Prints an explanation for `simstream explain`: first what was decided, then by which figures."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simstream.cli.verdict_table import COLOURS
from simstream.judge.candidates import WIDE_DISTANCE
from simstream.model import PageSource, Verdict
from simstream.sources.input_files import place
from simstream.terminal import printable
from simstream.tools.explain.explanation import (
    AppliedRules,
    CandidateView,
    Explanation,
    StateBefore,
    TextDifference,
    TextOverlap,
    TextPassage,
    TextPiece,
)
from simstream.tools.explain.reasons import name_draws, rejection

_SPACE = re.compile(r"\s+")
MAX_COLUMNS = 10_000
"""Nothing is wrapped in a pipe: a program there reads whole lines."""
MAX_PASSAGES = 30
"""At most so many differences are printed."""


def printed(explanation: Explanation, first: bool, diff: bool) -> None:
    """Print it to stdout. A terminal gets colours and lines as wide as the window, a pipe whole lines."""
    terminal = sys.stdout.isatty()
    console = Console(highlight=False, width=None if terminal else MAX_COLUMNS)
    verdict = msgspec.json.decode(explanation.verdict, type=Verdict)
    with console.capture() as captured:
        if not first:
            console.print(Text("═" * (console.width if terminal else 40), "bright_black"))
        _head(console, explanation, verdict)
        _facts(console, explanation, verdict)
        _words(console, explanation)
        _candidates(console, explanation)
        if explanation.overlap is not None:
            _print_overlap(console, explanation.overlap)
        if explanation.difference is not None:
            _difference(console, explanation.difference, explanation)
        elif diff:
            console.print(Text("\nText: there is no page to compare it with."))
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _head(console: Console, explanation: Explanation, verdict: Verdict) -> None:
    console.print(
        Text.assemble((printable(explanation.id), "bold"), "  ", (verdict.verdict, COLOURS[verdict.verdict]))
    )
    console.print(Text(printable(explanation.sentence)))
    if explanation.detail:
        console.print(Text(f"What was found: {printable(explanation.detail)}."))
    if explanation.agrees is False and explanation.published is not None:
        console.print(Text("THE PUBLISHED VERDICT DIFFERS from the verdict that the log gives now:", "bold red"))
        console.print(Text(f"  published  {bytes(explanation.published).decode()}"))
        console.print(Text(f"  from log   {bytes(explanation.verdict).decode()}"))


def _facts(console: Console, explanation: Explanation, verdict: Verdict) -> None:
    rules, where = explanation.rules, _where(verdict.source, explanation.published is None)
    facts = [
        ("page", f"ordinal {verdict.ordinal}, {_time(verdict.time)}, {where}"),
        ("before it", _before(explanation.before)),
        ("recipe", f"{rules.recipe} ({rules.recipe_id}): {_recipe(rules)}"),
        ("policy", f"{rules.policy}: {_policy(rules)}"),
    ]
    if verdict.fingerprint:
        facts.append(("fingerprint", verdict.fingerprint))
    if explanation.published is not None and explanation.agrees:
        facts.append(("published", "the same verdict, byte for byte"))
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts:
        grid.add_row(Text(name, "bold"), Text(printable(fact)))
    console.print(grid)


def _where(source: PageSource, in_file: bool) -> str:
    if in_file:
        return place(source.topic, source.offset)
    return f"{source.topic}, partition {source.partition}, offset {source.offset}"


def _recipe(rules: AppliedRules) -> str:
    sketch = f"{rules.sketch_bits}-bit sketch" if rules.sketch_bits else "no sketch"
    return f"at least {rules.min_words} distinct words, {sketch}"


def _policy(rules: AppliedRules) -> str:
    parts = [f"distance at most {rules.distance}: bits {name_draws(rules)}"]
    if rules.agreement is not None:
        parts.append(
            f"similarity at least {rules.similarity:.4f} ({rules.agreement} of {rules.sketch_bits} bits agree)"
        )
    if rules.short_distance is not None:
        agree = "" if rules.short_agreement is None else f" and {rules.short_agreement} bits agree"
        parts.append(f"under {rules.short_words} words at most {rules.short_distance}{agree}")
    parts.append("no window" if rules.window_ms is None else f"window {timedelta(milliseconds=rules.window_ms)}")
    return ", ".join([*parts, f"link {rules.link}"])


def _before(before: StateBefore) -> str:
    parts = [f"{before.live_pages:,} live {'page' if before.live_pages == 1 else 'pages'}"]
    if before.stream_time:
        parts.append(f"stream time {_time(before.stream_time)}")
    if before.earlier is not None:
        parts.append(f"its earlier version: ordinal {before.earlier.ordinal}, cluster {before.earlier.cluster_id}")
    return ", ".join(parts)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if ms else "no time"


def _words(console: Console, explanation: Explanation) -> None:
    if explanation.text_missing:
        console.print(Text(f"\nThe words are not known: {printable(explanation.text_missing)}.", "yellow"))
        return
    if not explanation.words:
        return
    shown, total = len(explanation.words), explanation.distinct_words
    cut = "; only the text's beginning counts" if explanation.text_cut else ""
    cut += f"; the heaviest {explanation.rules.top} count" if explanation.rules.top else ""
    heading = f"Words: {total:,} distinct (at least {explanation.rules.min_words} are needed){cut}"
    console.print(Text(f"\n{heading}{_more(shown, total, 'lighter')}", "bold"))
    table = _table(("weight", "right"), ("times", "right"), ("word", "left"))
    for word in explanation.words:
        table.add_row(f"{word.weight:.2f}", f"{word.times:,}", Text(printable(word.word)))
    console.print(table)


def _candidates(console: Console, explanation: Explanation) -> None:
    if not explanation.candidate_count:
        return
    shown, total = len(explanation.candidates), explanation.candidate_count
    bits = max(WIDE_DISTANCE, explanation.rules.distance)
    heading = f"Candidates: {total:,} within {bits} bits, {explanation.matches:,} matched"
    console.print(Text(f"\n{heading}{_more(shown, total, 'further')}", "bold"))
    sketch = explanation.rules.sketch_bits > 0
    similar = [("similar", "right"), ("agree", "right")] if sketch else []
    table = _table(
        ("ordinal", "right"), ("bits", "right"), *similar, ("cluster", "right"), ("rule", "left"), ("page", "left")
    )
    for one in explanation.candidates:
        table.add_row(*_row(one, explanation.rules))
    console.print(table)


def _row(one: CandidateView, rules: AppliedRules) -> list[str | Text]:
    alike = [f"{one.similarity:.4f}", f"{one.agreement}"] if rules.sketch_bits else []
    word = Text(rejection(one, rules), "green" if one.accepted else "bright_black")
    return [str(one.ordinal), str(one.distance), *alike, one.cluster_id, word, Text(printable(one.id))]


def _more(shown: int, total: int, kind: str) -> str:
    return f"; {total - shown:,} {kind} not shown" if total > shown else ""


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, header_style="bright_black")
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in ("word", "page"))  # type: ignore[arg-type]
    return table


def _print_overlap(console: Console, overlap: TextOverlap) -> None:
    here, there = (f"{share * 100:.4g} %" for share in (overlap.of_page, overlap.of_other))
    name = printable(overlap.id)
    console.print(Text(f"\nText in common with {name} (ordinal {overlap.ordinal})", "bold"))
    shares = (
        f"{here} of the page's runs of five letters and digits are in {name}, {there} of its runs are in the page"
    )
    console.print(Text(f"{shares}; true Jaccard similarity {overlap.jaccard:.4f}"))


def _difference(console: Console, difference: TextDifference, explanation: Explanation) -> None:
    name = f"{printable(difference.id)} (ordinal {difference.ordinal})"
    if difference.missing is not None:
        console.print(
            Text(f"\nThe texts cannot be compared with {name}: {printable(difference.missing)}.", "yellow")
        )
        return
    alone = f"{difference.only_other:,} only there, {difference.only_page:,} only here"
    words = f"{difference.same:,} words in common, {alone}"
    console.print(Text(f"\nText beside {name}: {words}", "bold"))
    shown = difference.passages[:MAX_PASSAGES]
    if console.is_terminal:
        _side_by_side(console, difference, shown, explanation)
    else:
        for passage in shown:
            console.print(Text(f"\n- {_plain(passage, passage.other)}\n+ {_plain(passage, passage.page)}"))
    if len(difference.passages) > len(shown):
        console.print(f"{len(difference.passages) - len(shown):,} more places differ")


def _side_by_side(
    console: Console, difference: TextDifference, shown: tuple[TextPassage, ...], explanation: Explanation
) -> None:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, expand=True, show_lines=True)
    table.add_column(Text(printable(difference.id)), ratio=1, overflow="fold")
    table.add_column(Text(f"{printable(explanation.id)} (this page)"), ratio=1, overflow="fold")
    for passage in shown:
        table.add_row(_coloured(passage, passage.other, "bold red"), _coloured(passage, passage.page, "bold green"))
    console.print(table)


def _coloured(passage: TextPassage, pieces: tuple[TextPiece, ...], style: str) -> Text:
    text = Text("… " if passage.before else "")
    for piece in pieces:
        text.append(_line(piece.text), style if piece.changed else "")
    text.rstrip()
    return text.append(" …" if passage.after else "")


def _plain(passage: TextPassage, pieces: tuple[TextPiece, ...]) -> str:
    """Return one line; text that only one page has stands in brackets."""
    parts = []
    for piece in pieces:
        text = _line(piece.text)
        bare = text.rstrip()
        parts.append(f"[{bare}]{text[len(bare) :]}" if piece.changed and bare else text)
    return ("… " if passage.before else "") + "".join(parts).rstrip() + (" …" if passage.after else "")


def _line(text: str) -> str:
    """Return the text on one line, each run of space as one space."""
    return printable(_SPACE.sub(" ", text))
