"""`simstream demo`: the whole service on a local log, with bundled pages or yours."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from simstream.amounts import say_count, say_pages
from simstream.cli import verdict_table
from simstream.cli.options import field_options, judging_options, settle
from simstream.cli.progress import say
from simstream.cli.repeated_names import MAX_WATCHED_NAMES, report_merged
from simstream.errors import InputError, SimstreamError
from simstream.model import COMPARED_VERDICTS, ENDING_KINDS, VerdictKind
from simstream.setting_groups import FieldSettings
from simstream.terminal import printable

if TYPE_CHECKING:
    from simstream.log.base import Log
    from simstream.model import Record, Verdict
    from simstream.settings import Settings
    from simstream.tools.dedup.groups import DuplicateGroup
    from simstream.wire.page import PageLimits


MAX_LARGEST_CLUSTERS = 5


@click.command("demo")
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--quiet", is_flag=True, help="Print only the summary.")
@field_options
@judging_options
def command(
    inputs: tuple[str, ...],
    quiet: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Run the whole service on a local log, over about a hundred bundled pages or over INPUT...

    Feeds, fingerprints and judges pages as `serve` does, and prints each committed verdict as a line.
    """
    settings = settle(config, state="", **flags)  # the demo must not use the state of a service
    # its pages are ordinary ones, and so are its verdicts; it has no matchers
    settings = structs.replace(
        settings, pages_format="json", verdicts_format="json", fields=FieldSettings(), shards=0
    )
    from simstream.log import open_log
    from simstream.sources.demo import demo_records
    from simstream.sources.fields import FieldNames
    from simstream.sources.read import read_pages
    from simstream.sources.repeated_names import PageNames
    from simstream.wire.page import PageLimits

    names, fields = PageNames(), FieldNames(text_field, id_field)
    damage: list[InputError] = []
    records: Iterable[Record] = (
        names.count_repeated(
            _to_the_damage(read_pages(inputs, settings.max_record_bytes, fields, say), damage), MAX_WATCHED_NAMES
        )
        if inputs
        else demo_records(settings.max_record_bytes)
    )
    with tempfile.TemporaryDirectory(prefix="simstream-demo-") as folder, open_log(folder) as log:
        log.create_topics(1)
        verdicts, seconds = _run(log, settings, records, quiet)
        largest = _largest(log, verdicts, PageLimits(settings.max_record_bytes))
    _summary(verdicts, largest, seconds)
    report_merged(names)
    if damage:
        raise damage[0]


def _to_the_damage(records: Iterable[Record], damage: list[InputError]) -> Iterator[Record]:
    """Yield the records that can be read; `damage` gets the error for the others."""
    try:
        yield from records
    except InputError as error:
        damage.append(error)


def _run(
    log: Log, settings: Settings, records: Iterable[Record], quiet: bool
) -> tuple[list[Verdict], float | None]:
    """Feed and serve until every page has its verdict. Returns also the seconds that it took; None at a first
    start, where HTML waits until its kernels are compiled."""
    from simstream.cli.serve import service
    from simstream.log.options import VERDICTS
    from simstream.roles.context import RoleContext
    from simstream.text.fingerprinter import compiled
    from simstream.tools.feed.feed import feed
    from simstream.wire import verdict as wire

    context, fed, is_first = RoleContext(settings), [], not compiled(settings.cache_folder)

    def feeding() -> None:
        fed.append(feed(log, records, settings.max_record_bytes, refused=say))

    verdicts: list[Verdict] = []
    with service(log, settings, context, ("fingerprint", "judge"), {"feed": feeding}, few=True) as supervisor:
        supervisor.start()
        started = time.perf_counter()
        try:
            with log.open_reader(VERDICTS, 0) as reader:
                while not (fed and len(verdicts) >= fed[0].sent) and not context.stop.is_set():
                    for record in reader.poll(1000, 0.2):
                        verdict = wire.decode(record.value or b"")
                        if not quiet:
                            if not verdicts:
                                click.echo(verdict_table.header())
                            click.echo(verdict_table.line(verdict))
                        verdicts.append(verdict)
            seconds = time.perf_counter() - started
        finally:
            context.stop.set()
            supervisor.join(settings.stop_timeout_s)  # a role that has just begun still writes into the log
        supervisor.wait()
    if not fed or len(verdicts) < fed[0].sent:
        raise SimstreamError(
            "the demo ended before every page had its verdict",
            "run it again with --debug, and report what it prints",
        )
    return verdicts, None if is_first else seconds


def _summary(verdicts: list[Verdict], largest: list[DuplicateGroup], seconds: float | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    if not verdicts:
        console.print("0 pages: no verdict")
        return
    kinds = Counter(verdict.verdict for verdict in verdicts)
    console.print()
    pages = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    pages.add_column("verdict")
    pages.add_column("pages", justify="right")
    pages.add_column("what it means")
    for kind, meaning in MEANINGS.items():
        if kinds[kind]:
            pages.add_row(f"[{verdict_table.COLOURS[kind]}]{kind}[/]", f"{kinds[kind]:,}", meaning)
    console.print(pages)
    if largest:
        console.print("\nLargest clusters")
    for group in largest:
        line = f"  {len(group.pages):>4} pages  cluster {group.cluster_id:>4}  {printable(group.canonical)}"
        console.print(line, markup=False)
    number = len(verdicts)
    counts = f"{say_pages(number)}, {say_count(number, 'verdict')}, {'' if number == 1 else 'each '}published once"
    took = "" if seconds is None else f", in {seconds:.1f} s"
    console.print(f"\n{counts}{took}. {_kept(kinds)}".rstrip())


MEANINGS = {
    VerdictKind.NEW: "nothing like it before: founds a cluster",
    VerdictKind.NEAR_DUPLICATE: "much the same as an earlier page, which is named",
    VerdictKind.UNCHANGED: "fetched again, and much the same as before",
    VerdictKind.TOO_SHORT: "too few words to compare, or an error page",
    VerdictKind.UNREADABLE: "broken; its record is kept as a dead letter",
    VerdictKind.WITHDRAWN: "taken back by its producer",
}


def _kept(kinds: Counter[VerdictKind]) -> str:
    compared = sum(kinds[kind] for kind in COMPARED_VERDICTS)
    if not compared:
        return ""
    return f"A crawler would keep {kinds[VerdictKind.NEW]:,} of the {say_pages(compared)} that can be compared."


def _largest(log: Log, verdicts: list[Verdict], limits: PageLimits) -> list[DuplicateGroup]:
    """Return the largest clusters at the end of the run."""
    from simstream.log.committed_records import committed
    from simstream.log.options import PAGES
    from simstream.tools.dedup.groups import DuplicateGroups
    from simstream.wire.page import decode

    failed = {verdict.source.offset for verdict in verdicts if verdict.reason == "http_status"}
    gone = {
        record.offset
        for records in (committed(log, PAGES, 1000) if failed else ())
        for record in records
        if record.offset in failed and decode(record, limits).kind in ENDING_KINDS
    }
    groups = DuplicateGroups()
    for verdict in verdicts:
        groups.take(verdict, verdict.reason == "few_words" or verdict.source.offset in gone)
    return sorted(groups.groups(), key=lambda group: -len(group.pages))[:MAX_LARGEST_CLUSTERS]
