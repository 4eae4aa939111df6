"""`simstream verdicts`: show committed verdicts as a table or as JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from simstream.cli.options import PATIENCE_S, log_options, open_log, settings_options, settle
from simstream.cli.progress import say
from simstream.terminal import json_for

if TYPE_CHECKING:
    from simstream.log.base import Log
    from simstream.model import Record

MAX_POLL_RECORDS = 1000


@click.command("verdicts")
@click.option("--follow", is_flag=True, help="Wait for more verdicts, until Ctrl-C.")
@click.option("--new", is_flag=True, help="Show only verdicts that come from now on, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the records, one JSON object a line.")
@click.option("--headers", is_flag=True, help="Show headers that came from the page; with --json as a last field.")
@log_options
@settings_options
def command(follow: bool, new: bool, as_json: bool, headers: bool, config: str | None, **flags: Any) -> None:
    """Show the committed verdicts, each partition in order."""
    from simstream.cli import verdict_table
    from simstream.log.committed_records import committed
    from simstream.log.options import VERDICTS

    settings, patience, is_endless = settle(config, **flags), PATIENCE_S, follow or new
    if is_endless:
        with open_log(settings) as log:
            log.topic(VERDICTS)  # a broker that is away at the start is told soon
        patience = settings.give_up_s
    with open_log(settings, patience) as log:
        log.topic(VERDICTS)  # without the topic, end before the header
        if not as_json:
            click.echo(verdict_table.header())
        count = 0
        for records in _endless(log, new) if is_endless else committed(log, VERDICTS, MAX_POLL_RECORDS):
            _show(records, as_json, headers)
            count += len(records)
        if not count:
            say("no verdicts yet: --follow waits for them, and `simstream status` says who waits for what")


def _show(records: Iterable[Record], as_json: bool, headers: bool) -> None:
    import msgspec

    from simstream.cli import verdict_table
    from simstream.wire import verdict as wire

    for record in records:
        value = record.value or b""
        shown = _headers_of(record) if headers else {}
        if as_json:
            value = wire.as_json(value)
            if headers:
                value = value[:-1] + b',"headers":' + msgspec.json.encode(shown) + b"}"
            sys.stdout.buffer.write(json_for(sys.stdout, value) + b"\n")
            continue
        click.echo(verdict_table.line(wire.decode(value)))
        for name, text in shown.items():
            click.echo(verdict_table.header_line(name, text))
    sys.stdout.flush()


def _headers_of(record: Record) -> dict[str, str]:
    """Return the headers that came from the page, as text; bytes that are no UTF-8 become U+FFFD."""
    from simstream.wire.page_headers import FORMAT, VERDICT

    return {
        name: value.decode("utf-8", "replace") for name, value in record.headers if name not in (VERDICT, FORMAT)
    }


def _endless(log: Log, new: bool) -> Iterator[list[Record]]:
    from simstream.log.options import VERDICTS

    with log.open_reader(VERDICTS, "end" if new else 0) as reader:
        while True:
            yield reader.poll(MAX_POLL_RECORDS, 0.5)
