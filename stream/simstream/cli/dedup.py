"""`simstream dedup`: one verdict for each page of files, in order, without a broker."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from simstream.amounts import say_bytes, say_count
from simstream.cli.file_distance import settle_for_files, with_auto_distance
from simstream.cli.options import ShareType, field_options, judging_options, versions_option
from simstream.cli.progress import say
from simstream.cli.repeated_names import report_separated
from simstream.errors import InputError, InputMissing, OutputError, StateFull, StoreError, UsageError
from simstream.settings import duration_ms

if TYPE_CHECKING:
    from simstream.cli.dedup_run import DedupRun
    from simstream.settings import Settings
    from simstream.sources.fields import FieldNames
    from simstream.sources.input_files import InputFile
    from simstream.tools.dedup.run_state import RunState


MIN_RATED_S = 5.0
"""The rate of a run that judges for less time is not said: it would tell of the first batch."""


class DedupOptions(NamedTuple):
    """The options of a command line that are no settings."""

    inputs: tuple[str, ...]
    output: str
    keep: str | None
    pairs: str | None
    least_jaccard: float | None
    exact: bool
    clusters: str | None
    final: bool
    against: tuple[str, ...]
    max_unreadable: float | None
    versions: bool
    text_field: str | None
    id_field: str | None
    state: str | None
    save_every_s: float

    @property
    def fields(self) -> FieldNames:
        """The names of the fields of text and id."""
        from simstream.sources.fields import FieldNames

        return FieldNames(self.text_field, self.id_field)

    @property
    def places(self) -> dict[str, str]:
        """The path of each further output, by its option."""
        named = {"--keep": self.keep, "--pairs": self.pairs, "--clusters": self.clusters}
        return {option: path for option, path in named.items() if path is not None}


@click.command("dedup")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-o", "--output", metavar="FILE", default="-", help="Write the verdicts to FILE (default: stdout).")
@click.option(
    "--keep",
    metavar="FILE",
    help="Write each page that is unlike all kept pages, as the input has it: a line, row, record or path.",
)
@click.option("--pairs", metavar="FILE", help="Write each near duplicate and its closest page.")
@click.option(
    "--least-jaccard",
    metavar="J",
    type=ShareType(0, 1, min_open=True),
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
    type=ShareType(0, 1),
    help="End with 1 if more than this share of pages, 0 to 1, is unreadable (default: if any line is not JSON).",
)
@click.option(
    "--state",
    metavar="DIR",
    help="Keep the progress in DIR: after a crash or Ctrl-C, the same command goes on there.",
)
@click.option(
    "--save-every", default="20s", show_default=True, metavar="TIME", help="How often the progress is saved in DIR."
)
@versions_option
@field_options
@judging_options
def command(config: str | None, **flags: Any) -> None:
    """Write one verdict for each page of INPUT..., in the order of the input.

    INPUT is JSONL (.jsonl; - is stdin), CSV (.csv), a web archive (.warc, .arc), Parquet, an HTML or text file, or
    a folder of HTML or text files. JSONL, CSV and archives may be compressed (.gz, .xz, .zst; archives also .lz4).
    INPUT may be an address (s3://, gs://, hf://, https://) or a pattern ('*.parquet'), and FILE an address.
    All cores fingerprint and extract HTML, unless --threads or the setting extract.workers says otherwise. --exact
    keeps all texts in a temporary file while it runs.

    FILE of -o, --pairs and --clusters is a table if its name ends in .parquet, .pq, .arrow or .feather. Else it has
    JSON lines.

    --final writes all verdicts at the end. Until then they lie in a temporary file.

    --state keeps what was judged in DIR until all outputs are whole. It keeps no texts, so --exact and
    --least-jaccard are refused.

    Unless --distance or the settings name a number, it is `auto`: the greatest distance, up to 12, that the index
    affords for the size of the input. A line on stderr says which. It finds more than the recipe's distance, which
    stdin keeps.

    --least-jaccard keeps each distinct text in a temporary file, too. All verdicts and outputs then follow from J.
    Fingerprints and sketches only choose which texts are compared, within --distance and
    --similarity (default: J - 0.25). Short pages are compared like all others.
    """
    flags["save_every_s"] = duration_ms("--save-every", flags.pop("save_every")) / 1000
    given = DedupOptions(**{name: flags.pop(name) for name in DedupOptions._fields})
    settings, automatic = settle_for_files(config, flags)
    from simstream.cli.dedup_outputs import check
    from simstream.cli.dedup_run import DedupRun, with_candidates
    from simstream.sources.addresses import public_address
    from simstream.sources.input_files import files_of
    from simstream.sources.page_origins import lasting_origin, origin_in_process
    from simstream.sources.read import size_of
    from simstream.sources.repeated_names import PageNames
    from simstream.tools.dedup.true_matches import LeastJaccard

    inputs, against = (files_of(named, say) for named in (given.inputs, given.against))  # an error comes at once
    check(inputs, against, {"--output": given.output, **given.places}, given.exact, given.state)
    rule = None if given.least_jaccard is None else LeastJaccard(given.least_jaccard, settings.threads)
    if automatic:
        settings = with_auto_distance(settings, size_of([*inputs, *against]), confirmed=rule is not None)
    if rule is not None:
        settings = with_candidates(settings, rule)
    state = None if given.state is None else _state(given, settings, inputs, against)
    names = None if given.versions else PageNames(origin_in_process if state is None else lasting_origin)
    run = DedupRun(given, settings, inputs, against, rule, names, state)
    began = perf_counter()
    try:
        run.judge()
    except (KeyboardInterrupt, StoreError, OutputError, StateFull, InputMissing):  # an input may be away later
        if given.state is not None:
            say(f"{given.state} keeps the progress: give the same command to go on")
        raise
    except InputError as error:
        if error is not run.damage or not run.kinds:
            raise
    if automatic:
        say(f"judged with --distance {settings.distance}")
    if given.output != "-":
        _sum_up(public_address(given.output), run, perf_counter() - began)
    report_separated(run.names)
    _judge_unread(run, given.max_unreadable)


def _state(given: DedupOptions, settings: Settings, inputs: list[InputFile], against: list[InputFile]) -> RunState:
    """Return the folder of the run. Raises UsageError if it cannot keep such a run."""
    from simstream.tools.dedup.run_facts import RunFacts, facts_of
    from simstream.tools.dedup.run_state import RunState

    for option, value in (("--exact", given.exact), ("--least-jaccard", given.least_jaccard)):
        if value:
            raise UsageError(f"--state keeps no texts, which {option} needs", f"leave out {option} or --state")
    options: dict[str, str | int | bool | None] = {
        "--keep": given.keep is not None,
        "--versions": given.versions,
        "--text-field": given.text_field,
        "--id-field": given.id_field,
        "max_record_bytes": settings.max_record_bytes,
    }
    return RunState(Path(given.state or ""), RunFacts(facts_of(inputs), facts_of(against), options))


def _judge_unread(run: DedupRun, most: float | None) -> None:
    """Report the pages that could not be read. Raises InputError if there are too many, or an input is damaged."""
    if run.damage is None:
        run.unread.check(most)
    run.unread.report(say)
    if run.damage is not None:
        raise run.damage


def _sum_up(output: str, run: DedupRun, seconds: float) -> None:
    """Say what a run of some seconds has judged. Its start, which may have compiled kernels, makes no rate, nor do
    verdicts of an earlier run."""
    from simstream.telemetry.process_memory import peak

    total, judging_s = run.kinds.total(), perf_counter() - run.first_verdict_at
    counts = ", ".join(f"{number:,} {kind}" for kind, number in run.kinds.most_common())
    say(f"{say_count(total, 'verdict')} in {output}: {counts or 'no page'}")
    judged = total - run.known
    rate = f", {judged / judging_s:,.0f} pages/s" if judged and judging_s >= MIN_RATED_S else ""
    held = peak()
    memory = f", peak memory {say_bytes(held)}" if held else ""
    say(f"{seconds:,.1f} s{rate}{memory}")
