"""`simstream dedup`: one verdict for each page of files, in order, without a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from math import isnan
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from simstream.cli.file_distance import settle_for_files, with_auto_distance
from simstream.cli.options import field_options, judging_options, make_deduper, versions_option
from simstream.cli.progress import say, with_progress
from simstream.cli.repeated_names import report_separated, separate
from simstream.errors import InputError

if TYPE_CHECKING:
    from simstream.cli.dedup_judging import FileJudge
    from simstream.model import Record
    from simstream.settings import Settings
    from simstream.tools.dedup.exact_pairs import ExactPairs
    from simstream.tools.dedup.unread import UnreadPages


class _ShareType(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        share = super().convert(value, param, ctx)
        return self.fail("nan is not a share from 0 to 1", param, ctx) if isnan(share) else share


@click.command("dedup")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-o", "--output", metavar="FILE", default="-", help="Write the verdicts to FILE (default: stdout).")
@click.option(
    "--keep",
    metavar="FILE",
    help="Write each page that is unlike all kept pages, as the input has it: a line, a row or a record.",
)
@click.option("--pairs", metavar="FILE", help="Write each near duplicate and its closest page.")
@click.option(
    "--least-jaccard",
    metavar="J",
    type=_ShareType(0, 1, min_open=True),
    help="Match pages if the true similarity of their texts is at least J; --pairs then lists every match.",
)
@click.option(
    "--exact", is_flag=True, help="Add `jaccard`, the exact similarity of both texts, to each line of --pairs."
)
@click.option("--clusters", metavar="FILE", help="Write each cluster of at least two pages.")
@click.option(
    "--final",
    is_flag=True,
    help="Add to each verdict the page's cluster at the end of the run: id, number of pages, canonical page.",
)
@click.option(
    "--against",
    metavar="INPUT",
    multiple=True,
    help="Compare with these pages, too; they get no verdict (repeatable).",
)
@click.option("--threads", metavar="N", help="Fingerprint in N threads (default: one for each core).")
@click.option(
    "--max-unreadable",
    metavar="SHARE",
    type=_ShareType(0, 1),
    help="End with 1 if more than this share of pages, 0 to 1, is unreadable (default: if any line is not JSON).",
)
@versions_option
@field_options
@judging_options
def command(
    inputs: tuple[str, ...],
    output: str,
    keep: str | None,
    pairs: str | None,
    least_jaccard: float | None,
    exact: bool,
    clusters: str | None,
    final: bool,
    against: tuple[str, ...],
    max_unreadable: float | None,
    versions: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Write one verdict for each page of INPUT..., in the order of the input.

    INPUT is JSONL (.jsonl; - is stdin), CSV (.csv), a web archive (.warc, .arc), Parquet, an HTML or text file, or
    a folder of HTML or text files. JSONL, CSV and archives may be compressed (.gz, .xz, .zst; archives also .lz4).
    All cores fingerprint and extract HTML, unless --threads or the setting extract.workers says otherwise. --exact
    keeps all texts in a temporary file while it runs.

    FILE of -o, --pairs and --clusters is a table if its name ends in .parquet, .pq, .arrow or .feather. Else it has
    JSON lines.

    --final writes all verdicts at the end. Until then they lie in a temporary file.

    Unless --distance or the settings name a number, it is `auto`: the greatest distance, up to 12, that the index
    affords for the size of the input. A line on stderr says which. It finds more than the recipe's distance.

    --least-jaccard keeps each distinct text in a temporary file, too. All verdicts and outputs then follow from J.
    Fingerprints and sketches only choose which texts are compared, within --distance and
    --similarity (default: J - 0.25). Short pages are compared like all others.
    """
    settings, automatic = settle_for_files(config, flags)
    from simstream.cli.dedup_judging import FileJudge, with_candidates
    from simstream.cli.dedup_outputs import CLUSTERS, FINAL, KEEP, PAIRS, FurtherOutputs, check
    from simstream.cli.row_output import written_rows
    from simstream.sources.fields import FieldNames
    from simstream.sources.read import size_of
    from simstream.sources.repeated_names import PageNames
    from simstream.tools.dedup.input_copy import make_copier
    from simstream.tools.dedup.row_layouts import FINAL_VERDICT_ROWS, VERDICT_ROWS
    from simstream.tools.dedup.true_matches import LeastJaccard, candidate_policy
    from simstream.tools.dedup.unread import UnreadPages
    from simstream.tools.dedup.verdict_spool import VerdictSpool

    size = size_of([*inputs, *against])  # report an unreadable input before anything is built
    named = {KEEP: keep, PAIRS: pairs, CLUSTERS: clusters}
    places = {option: path for option, path in named.items() if path is not None}
    check(inputs, against, {"--output": output, **places}, exact)
    fields, names = FieldNames(text_field, id_field), None if versions else PageNames()
    copy = None if keep is None else make_copier(inputs, keep, settings.max_record_bytes, fields)
    kinds, unread = Counter[str](), UnreadPages()
    rule = None if least_jaccard is None else LeastJaccard(least_jaccard, settings.threads)
    if automatic:
        settings = with_auto_distance(settings, size, confirmed=rule is not None)
    if rule is not None:
        settings = with_candidates(settings, rule)
    began = perf_counter()
    with make_deduper(settings) as deduper, ExitStack() as stack:
        policy = deduper.policy if rule is None else candidate_policy(deduper.policy)
        options = {*places, FINAL} if final else {*places}
        extras = FurtherOutputs(policy, options, _exact_pairs(settings, stack) if exact and rule is None else None)
        judge = stack.enter_context(FileJudge(deduper, settings.threads, extras, rule))
        if against:
            title = "reading the corpus to compare with"
            corpus = separate(with_progress(against, settings.max_record_bytes, title, fields), names)
            _compare_with(corpus, judge)
        out = stack.enter_context(written_rows(output, inputs, FINAL_VERDICT_ROWS if final else VERDICT_ROWS))
        held = stack.enter_context(VerdictSpool()) if final else None
        extras.begin(places, inputs, stack, copy)
        broken: InputError | None = None
        try:
            read = with_progress(inputs, settings.max_record_bytes, "judging", fields)
            records = separate(read if copy is None else copy.noted(read), names)
            for verdict in judge.stream(records):
                (out if held is None else held).write(verdict)
                kinds[verdict.verdict] += 1
                unread.take(verdict)
        except InputError as error:
            broken = error  # what was read before the damage counts
        if held is not None:
            extras.write_finals(held, out)
        extras.finish()
        if broken is not None:
            if str(unread):
                say(str(unread))
            raise broken
    if automatic:
        say(f"judged with --distance {settings.distance}")
    if output != "-":
        _sum_up(output, kinds, perf_counter() - began)
    report_separated(names)
    _judge_unread(unread, max_unreadable)


def _judge_unread(unread: UnreadPages, most: float | None) -> None:
    """Report the pages that could not be read. Raises InputError if there are too many."""
    if unread.too_many(most):
        raise InputError(
            str(unread), "repair these lines, or allow a share of unreadable pages with --max-unreadable"
        )
    if str(unread):
        say(str(unread))


def _exact_pairs(settings: Settings, stack: ExitStack) -> ExactPairs:
    from simstream.tools.dedup.exact_pairs import ExactPairs

    return stack.enter_context(ExactPairs(settings.threads))


def _sum_up(output: str, kinds: Counter[str], seconds: float) -> None:
    from simstream.telemetry.process_memory import peak

    counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    say(f"{kinds.total():,} verdicts in {output}: {counts or 'no page'}")
    held = peak()
    memory = f", peak memory {held / 1e6:,.0f} MB" if held else ""
    say(f"{seconds:,.1f} s, {kinds.total() / seconds:,.0f} pages/s{memory}")


def _compare_with(corpus: Iterable[Record], judge: FileJudge) -> None:
    """Make the pages of a corpus live."""
    from simstream.model import INCOMPARABLE_VERDICTS

    kinds = Counter[str](verdict.verdict for verdict in judge.stream(corpus))
    left_out = sum(kinds[kind] for kind in INCOMPARABLE_VERDICTS)
    say(f"{kinds.total():,} pages to compare with; {left_out:,} of them are too short or unreadable")
