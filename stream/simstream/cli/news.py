"""`simstream news`: serve stories as JSON and as a web page that updates live."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from simstream.cli.options import caller_options, log_options, open_log, resolve_settings, settings_options
from simstream.errors import UsageError, needs
from simstream.log import KAFKA
from simstream.settings import Settings, resolve
from simstream.telemetry.logging import log_to_stderr

PORT = 8300
"""The page's port by default. The default of `http_port` is for `serve`, which may run beside it."""


@click.command("news")
@click.option("--http-host", metavar="HOST", help="Address of the page (default: 127.0.0.1).")
@click.option("--http-port", metavar="PORT", help=f"Port of the page (default: {PORT}).")
@caller_options
@click.option("--window", metavar="72h", help="Drop stories older than this, by stream time (default: 72h).")
@click.option(
    "--webhook",
    metavar="URL",
    help="POST each new story to URL, signed with the secret in SIMSTREAM_WEBHOOK_SECRET.",
)
@click.option("--webhook-updates", is_flag=True, help="POST a story again whenever it has grown.")
@log_options
@settings_options
def command(config: str | None, webhook: str | None, webhook_updates: bool, **flags: Any) -> None:
    """Follow verdicts and pages, and serve a card for each story as JSON and as a web page, until Ctrl-C.

    Over Kafka, run only one news process for each log. It keeps its state in a topic of its own, so a restart goes
    on from there. A log in a directory is read from its beginning at each start.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the page has a handler of its own
    settings = _settle(config, flags)
    if settings.pages_format != "json":
        raise UsageError(
            f"the news page reads pages in JSON, and pages_format is {settings.pages_format}",
            "read the topic `verdicts` with a program of yours",
        )
    with needs("the news page", "feed"):
        from simstream.feeds.run import WebhookOptions, run
        from simstream.feeds.webhook import SECRET_VARIABLE, WebhookTarget
    told = None
    if webhook is not None:
        told = WebhookOptions(WebhookTarget(webhook, os.environ.get(SECRET_VARIABLE, "")), webhook_updates)
        if not settings.log.startswith(KAFKA):
            raise UsageError(
                f"webhooks need a Kafka log, which keeps what was told, and --log is {settings.log}",
                "give --log kafka://HOST:PORT, or leave --webhook out",
            )
    elif webhook_updates:
        raise UsageError("--webhook-updates was given without --webhook", "add --webhook URL")
    log_to_stderr(settings.log_format, settings.log_level or "info")
    with open_log(settings, patience=settings.give_up_s) as log:
        run(settings, log, told)


def _settle(config: str | None, flags: dict[str, Any]) -> Settings:
    found = resolve_settings(config, flags)
    if found.origin["http_port"] == "default":
        return resolve({**flags, "http_port": PORT}, file=config).settings
    return found.settings
