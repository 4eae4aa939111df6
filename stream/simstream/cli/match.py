"""`simstream match`: ask a running role `query` which live pages a text matches."""

from __future__ import annotations

import http.client
import re
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

import click
import msgspec

from simstream.cli.options import field_options, make_fingerprinter, recipe_option, settle
from simstream.errors import SimstreamError, UsageError
from simstream.sources.addresses import names_web_server
from simstream.sources.fields import FieldNames
from simstream.sources.lines import standard_input
from simstream.telemetry.asking import open_url, reason_of
from simstream.telemetry.callers import url_of
from simstream.terminal import json_for, printable
from simstream.tools.match_questions import PageQuestion, asked, batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simstream.settings import Settings

TIMEOUT_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
"""Of a longer answer only the beginning is read, which is refused."""


_ADVICE: Final = "start `simstream serve --roles query`, or give its address with --api"


class _Match(TypedDict):
    id: str
    distance: int
    similarity: float | None
    cluster_id: str


class _PageMatches(TypedDict):
    reason: NotRequired[str | None]
    matches: list[_Match]


class _Answer(msgspec.Struct):
    """The answer of a role `query`."""

    results: list[_PageMatches]


@click.command("match")
@click.argument("text", required=False)
@click.option(
    "-i", "--input", "source", metavar="INPUT", help="Take pages instead of a text: JSONL, HTML, a folder."
)
@click.option(
    "--api",
    metavar="URL",
    help="Address of the role query (default: http://QUERY_HOST:QUERY_PORT of the settings).",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=10,
    show_default=True,
    help="Show at most N matches a page.",
)
@click.option(
    "--with",
    "beside",
    metavar="INPUT",
    multiple=True,
    help="Find the texts of matches in INPUT, and show how much of each text is in the other (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a page.")
@field_options
@recipe_option
def command(
    text: str | None,
    source: str | None,
    api: str | None,
    limit: int,
    beside: tuple[str, ...],
    as_json: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    recipe: str | None,
) -> None:
    """Show the live pages that TEXT, or each page of INPUT, matches, the closest first.

    Asks a service that runs with `serve --roles query`, and adds no page to it. Without TEXT and -i, reads the text
    from stdin.

    A service keeps no texts. With --with, its matches are looked up in files, and all answers come at the end.
    """
    if text is not None and source is not None:
        raise UsageError("both a text and --input were given", "give one of them")
    if "-" in beside and text is None and source in (None, "-"):
        raise UsageError("the pages and --with are both stdin", "name a file for one of them")
    settings = settle(config, recipe=recipe)
    if api is not None:
        _check_api(api)
    url = (api or url_of(settings.query_host, settings.query_port)).rstrip("/")
    fields = FieldNames(text_field, id_field)
    answers = _answers(url, _pages(text, source, settings, fields), limit)
    if beside:
        _show_beside(answers, beside, fields, settings, as_json)
        return
    for page, result in answers:
        _show(page, result, as_json)


def _answers(url: str, pages: Iterator[PageQuestion], limit: int) -> Iterator[tuple[PageQuestion, dict[str, Any]]]:
    for batch in batches(pages):
        yield from zip(batch, _ask(url, [page.content for page in batch], limit), strict=True)


def _show_beside(
    answers: Iterator[tuple[PageQuestion, dict[str, Any]]],
    beside: Sequence[str],
    fields: FieldNames,
    settings: Settings,
    as_json: bool,
) -> None:
    """Print all answers, with what the texts have in common with the texts of the pages in the files `beside`."""
    from simstream.cli.progress import say, with_progress
    from simstream.sources.read import size_of
    from simstream.tools.matched_texts import MatchedTexts
    from simstream.tools.text_shares import TextShares
    from simstream.wire.page import PageLimits

    size_of(beside)  # refuse an unreadable input before anything is asked
    with (
        make_fingerprinter(settings, say) as fingerprinter,
        MatchedTexts(fingerprinter, PageLimits(max_record_bytes=settings.max_record_bytes)) as texts,
    ):
        held = [(page._replace(content={}), texts.ask(page.content), result) for page, result in answers]
        ids = {match["id"] for _, _, result in held for match in result["matches"]}
        texts.read(with_progress(beside, settings.max_record_bytes, "reading texts", fields, transient=True), ids)
        for page, number, result in held:
            for match in result["matches"]:
                shares = texts.shares(number, match["id"])
                match.update(shares._asdict() if shares else dict.fromkeys(TextShares._fields))
            _show(page, result, as_json)


def _pages(text: str | None, source: str | None, settings: Settings, fields: FieldNames) -> Iterator[PageQuestion]:
    if text is not None:
        yield PageQuestion("text", {"text": text})
    elif source is None:
        yield PageQuestion("-", {"text": standard_input().readall().decode("utf-8", "replace")})
    else:
        yield from asked(source, settings.max_record_bytes, fields)


def _check_api(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--api is {url!r}, which is no address", f"write http://{url.partition('://')[2] or url}")
    if re.search(r"[\x00-\x20\x7f]", url) or not names_web_server(url):
        raise UsageError(f"--api is {url!r}, which is no address", "write http://HOST:PORT")


def _ask(url: str, pages: list[dict[str, str]], limit: int) -> list[Any]:
    body = msgspec.json.encode({"pages": pages, "limit": limit})
    request = urllib.request.Request(f"{url}/match", body, {"Content-Type": "application/json"})
    try:
        with open_url(request, TIMEOUT_S) as answer:
            results = msgspec.json.decode(answer.read(MAX_ANSWER_BYTES), type=_Answer).results
        if len(results) != len(pages):
            raise ValueError(f"it answered {len(results)} of {len(pages)} pages")
        return results
    except urllib.error.HTTPError as error:
        raise SimstreamError(f"{url} refused the question ({error.code})", _detail(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise SimstreamError(f"{url} does not answer ({reason_of(error)})", _ADVICE) from error
    except (ValueError, RecursionError) as error:
        raise SimstreamError(f"{url} does not answer as a role `query` does ({error})", _ADVICE) from error


def _detail(answer: urllib.error.HTTPError) -> str:
    try:
        return str(msgspec.json.decode(answer.read(MAX_ANSWER_BYTES))["detail"])[:500]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return "check that --api names a role `query`"


def _show(page: PageQuestion, result: dict[str, Any], as_json: bool) -> None:
    reason = page.reason or result.get("reason")
    if as_json:
        click.echo(json_for(sys.stdout, msgspec.json.encode({"id": page.id, **result, "reason": reason})))
        return
    if not result["matches"]:
        click.echo(printable(f"{page.id}  {'not compared: ' + reason if reason else 'matches no live page'}"))
    for match in result["matches"]:
        similar = "     -" if match["similarity"] is None else f"{match['similarity']:.4f}"
        bits = f"{match['distance']:2d} bits"
        line = f"{page.id}  {similar}  {bits}  cluster {match['cluster_id']}  {match['id']}{_shares(match)}"
        click.echo(printable(line))


def _shares(match: dict[str, Any]) -> str:
    """Return how much of each text is in the other one; nothing without --with, or if a text is missing."""
    if match.get("jaccard") is None:
        return ""
    here, there = (f"{100 * match[name]:.4g} %" for name in ("of_page", "of_other"))
    return f"  true J {match['jaccard']:.4f}: {there} of that page is in this one, {here} of this one in that page"
