"""`simstream feed`: send pages from files to the topic `pages`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from simstream.amounts import say_pages
from simstream.cli.options import field_options, log_options, open_log, settings_options, settle
from simstream.cli.output import refuse_input
from simstream.cli.progress import say, with_progress
from simstream.cli.repeated_names import MAX_WATCHED_NAMES, report_merged
from simstream.errors import UsageError
from simstream.settings import Settings, duration_ms, refuse_paths

MIN_EVERY_MS = 1_000


@click.command("feed")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--resume", metavar="FILE", help="Keep the position in FILE, and go on from there.")
@click.option("--rss", is_flag=True, help="Read each INPUT, an address or a file, as an RSS or Atom feed.")
@click.option("--every", metavar="10m", help="With --rss: read each feed again after this time, until Ctrl-C.")
@field_options
@log_options
@settings_options
def command(
    inputs: tuple[str, ...],
    resume: str | None,
    rss: bool,
    every: str | None,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> int:
    """Send the pages of INPUT... to the topic `pages`. A page's key is its id.

    Reports a record that the topic refuses, sends all others, and then ends with 1.

    With --resume FILE, a second run over the same inputs goes on where the first stopped, also after a kill. Then
    it sends what was added at the end of the last one, and leaves a line of JSONL that is not finished to the next
    run. Every page arrives; a few may arrive twice.

    With --rss, an entry of a feed is a page: its id is its link, its text that of its content or summary. An entry
    is sent once in a run, and again if it has changed. A feed that cannot be read is named, the others are sent.
    """
    settings = settle(config, **flags)
    refuse_paths(settings, "feed")
    if rss:
        if resume or text_field or id_field:
            raise UsageError("--rss was given with an option for files", "leave out --resume and the fields")
        return _send_entries(inputs, every, settings)
    if every is not None:
        raise UsageError("--every was given without --rss", "add --rss if the inputs are feeds")
    from simstream.log.options import PAGES
    from simstream.sources.fields import FieldNames
    from simstream.sources.input_files import files_of
    from simstream.sources.repeated_names import PageNames
    from simstream.tools.feed.feed import feed
    from simstream.tools.feed.growing_file import up_to_whole_line
    from simstream.tools.feed.position import FeedPosition

    files = files_of(inputs, say)  # an error comes at once
    with open_log(settings) as log, ExitStack() as stack:
        fields, names = FieldNames(text_field, id_field), PageNames()
        position = None
        if resume is not None:
            refuse_input(resume, [file.path for file in files])
            position = stack.enter_context(FeedPosition(Path(resume), log.topic(PAGES)))
            files = up_to_whole_line(files, settings.max_record_bytes, say)
        records = names.count_repeated(
            with_progress(files, settings.max_record_bytes, "feeding", fields), MAX_WATCHED_NAMES
        )
        report = feed(log, records, settings.max_record_bytes, refused=say, position=position)
    if position is not None and position.before:
        say(f"{say_pages(position.before, 'was', 'were')} sent before, so not again")
    say(f"{say_pages(report.sent)} sent to {report.topic}")
    report_merged(names)
    if report.refused:
        say(f"{say_pages(report.refused, 'was', 'were')} not sent and will have no verdict")
    return 1 if report.refused else 0


def _send_entries(inputs: Sequence[str], every: str | None, settings: Settings) -> int:
    """Send the entries of all feeds. With `every`, ask again and again until Ctrl-C. Returns the exit code."""
    pause_ms = None if every is None else duration_ms("--every", every)
    if pause_ms is not None and pause_ms < MIN_EVERY_MS:
        raise UsageError(f"--every is {every!r}", "give 1s or more, such as 10m")
    from simstream.tools.feed.feed import feed
    from simstream.tools.feed.rss import RssReader

    reader = RssReader(inputs, say)
    with open_log(settings) as log:
        while True:
            began = time.monotonic()
            report = feed(log, reader.records(), settings.max_record_bytes, refused=say)
            if report.sent or pause_ms is None:
                say(f"{say_pages(report.sent)} sent to {report.topic}")
            if pause_ms is None:
                return 1 if report.refused or reader.failed else 0
            time.sleep(max(0.0, began + pause_ms / 1000 - time.monotonic()))
