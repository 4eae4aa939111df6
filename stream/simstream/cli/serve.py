"""`simstream serve`: run roles of the service in one process."""

from __future__ import annotations

import dataclasses
import gc
import logging
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
import msgspec

from simstream import __version__
from simstream.cli.checks import refuse_bad_state, refuse_shared_port
from simstream.cli.options import (
    caller_options,
    judging_options,
    log_options,
    make_fingerprinter,
    open_log,
    policy_of,
    roles_option,
    settle,
)
from simstream.cli.progress import say
from simstream.cli.signals import StartSignals, stop_on_signals
from simstream.errors import BrokerUnreachable, SimstreamError, needs
from simstream.interrupts import is_interrupt
from simstream.telemetry.callers import callers_of, url_of
from simstream.telemetry.logging import log_to_stderr

if TYPE_CHECKING:
    from simstream.compiling import CompilingProcess
    from simstream.judge.policy import Policy
    from simstream.log.base import Log
    from simstream.roles.context import RoleContext
    from simstream.roles.supervisor import RoleSupervisor
    from simstream.settings import Settings
    from simstream.telemetry.tracing import PageSpans
    from simstream.text.fingerprinter import Fingerprinter

_logger = logging.getLogger("simstream")
JUDGING = frozenset(("judge", "match", "query"))
"""The roles that need the judge's kernels."""
PROBE_S = 3.0
"""The seconds that a first look for the topics may take."""
CLOSING_S = 10.0
"""Seconds that everything else may take to close once the roles have ended."""
OPEN_FILES = 1 << 16
SWITCH_S = 0.001
"""How long a thread may hold the interpreter while another thread waits for it. Python's default is 5 ms."""


@click.command("serve")
@roles_option
@click.option("--http-host", metavar="HOST", help="Address of metrics and health (default: 127.0.0.1).")
@click.option("--http-port", metavar="PORT", help="Port of metrics and health (default: 9464; 0: any free port).")
@click.option("--query-host", metavar="HOST", help="Address of the role query (default: 127.0.0.1).")
@click.option("--query-port", metavar="PORT", help="Port of the role query (default: 9470; 0: any free port).")
@caller_options
@click.option(
    "--threads",
    metavar="N",
    help="Fingerprint, and look up in a large index, in N threads (default: one for each core but one).",
)
@click.option("--state", metavar="DIR", help="Keep the state in DIR (default: only in memory).")
@click.option(
    "--shards", metavar="N", help="Shards of the index on matchers (default: the partitions of matches; 0: none)."
)
@click.option("--matches", metavar="NAME", help="Last part of the name of the topic of answers (default: matches).")
@click.option("--instance", metavar="NAME", help="Keep a matcher's shards over a restart, under this name.")
@click.option("--copy", metavar="N", help="Serve copy N of the index with a matcher (default: 1).")
@log_options
@judging_options
def command(roles: tuple[str, ...], config: str | None, **flags: Any) -> int:
    """Read pages, judge them, and publish one verdict for each. Commits and ends on SIGTERM or Ctrl-C."""
    settings = settle(config, **flags)
    refuse_shared_port(settings, roles)
    if JUDGING & {*roles}:
        refuse_bad_state(settings)
    if {"fingerprint", "judge"} & {*roles}:
        from simstream.registry.schemas import check_registry

        check_registry(settings)
    log_to_stderr(settings.log_format, settings.log_level or "info")
    try:
        serve(settings, roles, config)
    except SimstreamError as error:
        if settings.log_format == "text":
            raise
        _logger.error("%s: %s", error.what, error.todo)  # the last line must be a JSON event, too
        return error.exit_code
    return 0


def allow_open_files() -> None:
    """Raise the process's limit of open files, if the system allows it: each shard keeps up to 256 open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def serve(settings: Settings, chosen: tuple[str, ...], config: str | None = None) -> None:
    """Run the roles until a signal or an error."""
    from simstream.log import judged_prefix
    from simstream.roles.context import RoleContext
    from simstream.roles.stop_deadline import StopDeadline
    from simstream.telemetry.health import ServiceHealth
    from simstream.telemetry.http import HttpServer
    from simstream.telemetry.metrics import Metrics

    sys.setswitchinterval(SWITCH_S)
    allow_open_files()
    metrics = Metrics(judged_prefix(settings))
    spans = _open_spans(settings) if "judge" in chosen else None
    context = RoleContext(settings, metrics, ServiceHealth(settings.stuck_after_s), spans=spans)
    try:
        with (
            StopDeadline("the service", CLOSING_S) as deadline,
            StartSignals(deadline.begin) as signals,
            spans or nullcontext(),
            HttpServer(settings.http_host, settings.http_port, context.metrics, context.health) as http,
            open_log(settings, patience=settings.give_up_s) as log,
        ):
            _logger.info("metrics and health on %s", url_of(settings.http_host, http.port))
            _refuse_missing_topic(settings, chosen)
            with service(log, settings, context, chosen, config=config) as supervisor:
                signals.started()  # until here a signal interrupts, also while kernels are compiled
                stop_on_signals(context.stop)
                supervisor.start()
                try:
                    supervisor.wait()
                finally:
                    deadline.begin(sys.exception())
    except BaseException as error:  # a library may have put another error in the place of an interrupt
        if not is_interrupt(error):
            raise
        _logger.info("ended before any role began")
        return
    _logger.info("ended: all read pages are committed, or will be read again")


def _refuse_missing_topic(settings: Settings, chosen: tuple[str, ...]) -> None:
    """Raise TopicMissing before minutes of compiling, if a broker says so within PROBE_S. The roles wait longer."""
    from simstream.log.options import FINGERPRINTS, PAGES

    with suppress(BrokerUnreachable), open_log(settings, patience=PROBE_S) as probe:
        probe.topic(PAGES if "fingerprint" in chosen else FINGERPRINTS)


def _open_spans(settings: Settings) -> PageSpans | None:
    from simstream.telemetry.tracing import PageSpans, check_tracing

    check_tracing(settings)
    return PageSpans(settings.otlp_endpoint, settings.prefix) if settings.otlp_endpoint else None


@contextmanager
def service(
    log: Log,
    settings: Settings,
    context: RoleContext,
    chosen: tuple[str, ...],
    beside: Mapping[str, Callable[[], None]] = MappingProxyType({}),
    config: str | None = None,
    few: bool = False,
) -> Iterator[RoleSupervisor]:
    """Prepare the roles over a log, for a supervisor that is not yet started. `beside`: loops that end with them.
    `config`: the settings file. `few`: there will be few pages, so what only many need is not compiled
    beforehand."""
    from simstream.compiling import announced
    from simstream.judge.warming import warm_judge
    from simstream.roles.fingerprint.role import FingerprintRole
    from simstream.roles.judge.role import JudgeRole
    from simstream.roles.match.role import MatchRole
    from simstream.roles.supervisor import RoleSupervisor

    workers = None if set(chosen) & {"fingerprint", "query"} else 0
    speak = say if settings.log_format == "text" else _logger.info
    with (
        ExitStack() as stack,
        _warming(settings, chosen, few) as warming,
        make_fingerprinter(settings, speak, workers, clock=time.monotonic) as fingerprinter,
    ):
        recipe = fingerprinter.recipe
        policy = policy_of(settings, recipe, fingerprinter.recipe_id)
        context.metrics.describe(__version__, recipe.name, fingerprinter.recipe_id, policy.id, settings.window_ms)
        roles = dict(beside)
        if "fingerprint" in chosen:
            roles["fingerprint"] = FingerprintRole(log, fingerprinter, context).run
        if set(chosen) & JUDGING:
            with announced(speak, "the judge"):
                if warming is not None:
                    warming.wait()
                warm_judge(policy, few=few)
        if "judge" in chosen:
            roles["judge"] = JudgeRole(log, policy, context).run
        if "match" in chosen:
            roles["match"] = MatchRole(log, policy, context).run
        if "query" in chosen:
            own = _beside_a_judge(context) if "judge" in chosen else context
            roles["query"], port = stack.enter_context(_queries(log, policy, fingerprinter, own, config))
            _logger.info("questions on %s, described at /docs", url_of(settings.query_host, port))
        if "fingerprint" in chosen and not few:  # else the first HTML pages would wait, and all pages beside them
            while fingerprinter.is_compiling and not context.stop.wait(0.1):
                pass
        _logger.info(
            "serving %s on %s: recipe %s (%s), policy %s",
            ", ".join(chosen),
            settings.log,
            recipe.name,
            fingerprinter.recipe_id,
            policy.id,
        )
        gc.freeze()  # what the start has made stays: no collection need walk over it while pages are judged
        yield RoleSupervisor(context, roles)


def _beside_a_judge(context: RoleContext) -> RoleContext:
    """Return the context of the role `query`: its state folder lies within that of the judge, and its metrics of
    log and state are not exposed, as the judge's have the same names."""
    from simstream.files.names import QUERY

    settings = context.settings
    if settings.state:
        path = Path(settings.state) / QUERY
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = msgspec.structs.replace(settings, state=str(path))
    return dataclasses.replace(context, settings=settings, metrics=context.metrics.of_second_state())


@contextmanager
def _warming(settings: Settings, chosen: tuple[str, ...], few: bool) -> Iterator[CompilingProcess | None]:
    """Compile the judge's kernels beside those of text, if none are compiled yet and the roles need both."""
    from simstream.judge.warming import warming_process
    from simstream.text.fingerprinter import compiled
    from simstream.text.recipe_file import load_recipe

    if compiled(settings.cache_folder) or not set(chosen) & JUDGING:
        yield None
        return
    with warming_process(policy_of(settings, load_recipe(settings.recipe), ""), few) as process:
        yield process


@contextmanager
def _queries(
    log: Log, policy: Policy, fingerprinter: Fingerprinter, context: RoleContext, config: str | None
) -> Iterator[tuple[Callable[[], None], int]]:
    """Serve the API of the role `query`. Returns the role's loop and the API's port."""
    from simstream.roles.query import QueryRole

    with needs("the role query", "query"):
        from simstream.client.aio import AsyncClient
        from simstream.queries.app import make_app
        from simstream.queries.server import QueryServer
        from simstream.queries.verdict_caller import VerdictCaller
    settings = context.settings
    role = QueryRole(log, policy, fingerprinter, context)
    judge = VerdictCaller(
        lambda: AsyncClient(
            settings.log,
            settings.prefix,
            pages_topic=settings.pages_topic,
            publish_to=settings.publish_to,
            verdicts_topic=settings.verdicts_topic,
            config=config,
        )
    )
    app = make_app(role, fingerprinter, judge, context.health, context.metrics)
    callers = callers_of(settings.allowed_hosts, settings.query_host, settings.token_file)
    with QueryServer(settings.query_host, settings.query_port, app, callers=callers) as server:
        yield role.run, server.port
