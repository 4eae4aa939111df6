"""`simstream dead-letters list|replay`: show pages that could not be read, and send them again."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from simstream.amounts import say_pages
from simstream.cli.options import COUNT, log_options, open_log, settings_options, settle
from simstream.errors import SettingsError
from simstream.model import GIVEN_REASONS
from simstream.terminal import json_for, printable

if TYPE_CHECKING:
    from simstream.tools.dead_letters.letters import DeadLetter, LetterFilter
    from simstream.tools.dead_letters.replay import LetterReplay
    from simstream.wire.page import PageLimits

MAX_SHOWN_BYTES = 2000
MAX_SHOWN_ID = 100
"""Characters of an id in the table on a terminal; a pipe gets it whole, as from `simstream verdicts`."""


@click.group("dead-letters")
def command() -> None:
    """Show or send again the pages that could not be read: the records of the topic `dead-letters`."""


_REASON = click.option(
    "--reason",
    type=click.Choice(sorted({*GIVEN_REASONS} - {"few_words", "http_status"})),
    metavar="WORD",
    help="Take only pages that failed for this reason, such as bad_json or extract_failed.",
)
_SINCE = click.option(
    "--since", metavar="2h|TIME", help="Take only newer pages: since 2h ago, or since an ISO 8601 time."
)


@command.command("list")
@_REASON
@_SINCE
@click.option("--limit", type=COUNT, metavar="N", help="Show only the newest N.")
@click.option("--show", is_flag=True, help="Show the page's bytes, too (the beginning of a long page).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@log_options
@settings_options
def list_them(
    reason: str | None,
    since: str | None,
    limit: int | None,
    show: bool,
    as_json: bool,
    config: str | None,
    **flags: Any,
) -> None:
    """Show which pages failed, when, why, and where they came from. Prints no content of a page without --show."""
    from simstream.tools.dead_letters.letters import letters
    from simstream.wire.page import PageLimits

    wanted, settings = _wanted(reason, since), settle(config, **flags)
    limits = PageLimits(settings.max_record_bytes, settings.field_paths)
    with open_log(settings) as log:
        shown: Iterable[str] = (_shown(letter, limits, show, as_json) for letter in letters(log, wanted))
        if limit is not None:
            shown = deque(shown, maxlen=limit)
        texts = iter(shown)
        first = next(texts, None)  # an error comes before the head of the table
        if not as_json:
            click.echo("no failed page to list" if first is None else click.style(_HEAD, bold=True))
        for text in () if first is None else chain([first], texts):
            click.echo(text)


@command.command("replay", short_help="Send each failed page to the topic `pages` once more.")
@_REASON
@_SINCE
@click.option("--limit", type=COUNT, metavar="N", help="Send at most N pages, the oldest first.")
@click.option(
    "--again",
    is_flag=True,
    help="Also send pages that were replayed before, failed again after a replay, or came again since.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Only say how many pages would be sent.")
@log_options
@settings_options
def replay(
    reason: str | None,
    since: str | None,
    limit: int | None,
    again: bool,
    dry: bool,
    config: str | None,
    **flags: Any,
) -> int:
    """Send each failed page to the topic `pages` once more, with its key, headers and value.

    Use it when the cause of the failure is gone: a limit was raised, or a library was repaired. Skips pages that
    were kept only in part, and letters of another topic's pages. Also skips pages that came again since: the older
    one would replace the newer version, or undo a withdrawal. To find these it reads `pages`, from the first failed
    page on. Run one replay at a time: on Kafka, two send each page twice. On a local log, stop the fingerprinter
    first. Ends with 1 if `pages` refuses a page.
    """
    from simstream.registry.schemas import limits_of
    from simstream.tools.dead_letters.replay import replay as send_again

    wanted, settings = _wanted(reason, since), settle(config, **flags)
    limits = replace(limits_of(settings), html_by_kernels=False)
    with open_log(settings) as log:
        report = send_again(log, wanted, limits, limit=limit, again=again, dry=dry)
    _say(report, dry)
    return 1 if report.refused else 0


def _wanted(reason: str | None, since: str | None) -> LetterFilter:
    from simstream.tools.dead_letters.letters import LetterFilter

    return LetterFilter(reason, _since_ms(since) if since else 0)


def _since_ms(since: str) -> int:
    """Return the time of `since`, a duration before now or a time, in ms since 1970. Raises SettingsError."""
    from simstream.settings import duration_ms
    from simstream.wire.page import time_ms

    try:
        return int(time.time() * 1000) - duration_ms("--since", since)
    except SettingsError:
        moment = time_ms(since)
        if moment is None:
            raise SettingsError(
                f"--since is {since!r}, which is not a time",
                "give a duration such as 2h, or a time such as 2026-11-21T18:00",
            ) from None
        return moment


_HEAD = f"{'written (UTC)':<19}  {'reason':<16}  {'place':>8}  {'bytes':>9}  {'from':<24}  page: error"


def _when(letter: DeadLetter) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(letter.time / 1000))


def _shown(letter: DeadLetter, limits: PageLimits, show: bool, as_json: bool) -> str:
    from simstream.wire.page import decode

    page_id = decode(letter.page, limits).id
    if as_json:
        import msgspec

        return json_for(sys.stdout, msgspec.json.encode({"id": page_id} | _fields(letter, show))).decode()
    return _line(letter, page_id) + (f"\n    {printable(_content(letter))}" if show else "")


def _line(letter: DeadLetter, page_id: str) -> str:
    source = f"{letter.source_topic}/{letter.source_partition}/{letter.source_offset}"
    notes = [
        note
        for note, holds in (
            ("cut", letter.cut),
            ("replayed", letter.replayed),
            ("failed after a replay", letter.failed_again),
        )
        if holds
    ]
    start = f"{_when(letter)}  {letter.reason:<16}  {letter.place:>8}  {letter.size:>9,}  {source:<24}  "
    end = f"  ({', '.join(notes)})" if notes else ""
    if len(page_id) > MAX_SHOWN_ID and sys.stdout.isatty():
        page_id = f"{page_id[: MAX_SHOWN_ID // 2]}…{page_id[1 - MAX_SHOWN_ID // 2 :]}"
    return printable(f"{start}{page_id}: {letter.error}{end}")


def _fields(letter: DeadLetter, show: bool) -> dict[str, object]:
    key = letter.record.key
    fields: dict[str, object] = {
        "time": letter.time,
        "key": None if key is None else key.decode("utf-8", "replace"),
        "reason": letter.reason,
        "error": letter.error,
        "source": {
            "topic": letter.source_topic,
            "partition": letter.source_partition,
            "offset": letter.source_offset,
        },
        "partition": letter.record.partition,
        "offset": letter.record.offset,
        "bytes": letter.size,
        "cut": letter.cut,
        "replayed": letter.replayed,
        "failed_after_replay": letter.failed_again,
    }
    if show:
        fields["value"] = _content(letter)
    return fields


def _content(letter: DeadLetter) -> str:
    return (letter.record.value or b"")[:MAX_SHOWN_BYTES].decode("utf-8", "replace")


def _say(report: LetterReplay, dry: bool) -> None:
    by_reason = ", ".join(f"{number:,} {reason}" for reason, number in report.reasons.most_common())
    word = "would be sent" if dry else "sent"
    click.echo(
        f"{say_pages(report.sent)} {word} again to {report.topic}" + (f" ({by_reason})" if by_reason else "")
    )
    for number, why in (
        (report.before, "replayed before: add --again to send them once more"),
        (report.failed_again, "failed after a replay: add --again to send them once more"),
        (report.newer, "came again since: add --again to send the older ones over the newer"),
        (report.unknown, f"may have come again, in records that {report.topic} has lost: add --again to send them"),
        (report.cut, "kept only in part, and cannot be sent"),
        (report.foreign, f"came from another topic than {report.topic}: name that topic with --pages-topic"),
        (report.refused, "refused: larger than the topic allows"),
    ):
        if number:
            click.echo(f"{number:,} {why}")
