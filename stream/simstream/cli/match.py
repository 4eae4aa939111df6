"""`simstream match`: ask a running role `query` which live pages a text matches."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import click
import msgspec

from simstream.cli.options import settings_options, settle
from simstream.errors import SimstreamError, UsageError
from simstream.tools.match_questions import PageQuestion, asked, batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simstream.settings import Settings

TIMEOUT_S = 60.0


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a page.")
@settings_options
def command(
    text: str | None, source: str | None, api: str | None, limit: int, as_json: bool, config: str | None
) -> None:
    """Show the live pages that TEXT, or each page of INPUT, matches, the closest first.

    Asks a service that runs with `serve --roles query`, and adds no page to it. Without TEXT and -i, reads the text
    from stdin.
    """
    if text is not None and source is not None:
        raise UsageError("both a text and --input were given", "give one of them")
    settings = settle(config)
    host = f"[{settings.query_host}]" if ":" in settings.query_host else settings.query_host
    url = (api or f"http://{host}:{settings.query_port}").rstrip("/")
    for batch in batches(_pages(text, source, settings)):
        _show(batch, _ask(url, [page.content for page in batch], limit), as_json)


def _pages(text: str | None, source: str | None, settings: Settings) -> Iterator[PageQuestion]:
    if text is not None:
        yield PageQuestion("text", {"text": text})
    elif source is None:
        yield PageQuestion("-", {"text": sys.stdin.buffer.read().decode("utf-8", "replace")})
    else:
        yield from asked(source, settings.max_record_bytes)


def _ask(url: str, pages: list[dict[str, str]], limit: int) -> list[dict[str, Any]]:
    body = msgspec.json.encode({"pages": pages, "limit": limit})
    request = urllib.request.Request(f"{url}/match", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            results: list[dict[str, Any]] = msgspec.json.decode(answer.read())["results"]
            return results
    except urllib.error.HTTPError as error:
        raise SimstreamError(f"{url} refused the question ({error.code})", _detail(error.read())) from error
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "reason", error)
        raise SimstreamError(
            f"{url} does not answer ({reason})",
            "start `simstream serve --roles query`, or give its address with --api",
        ) from error


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["detail"])[:500]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return "check that --api names a role `query`"


def _show(batch: list[PageQuestion], results: list[dict[str, Any]], as_json: bool) -> None:
    for page, result in zip(batch, results, strict=True):
        page_id = page.id
        if as_json:
            click.echo(msgspec.json.encode({"id": page_id, **result}))
            continue
        if not result["matches"]:
            reason = page.reason or result["reason"]
            click.echo(f"{page_id}  {'not compared: ' + reason if reason else 'matches no live page'}")
        for match in result["matches"]:
            similar = "     -" if match["similarity"] is None else f"{match['similarity']:.4f}"
            bits = f"{match['distance']:2d} bits"
            click.echo(f"{page_id}  {similar}  {bits}  cluster {match['cluster_id']}  {match['id']}")
