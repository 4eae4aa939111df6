"""Checks the settings together: all that `serve` refuses at its start and `config` warns of."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from simstream.errors import SettingsError, SimstreamError
from simstream.kafka_settings import KAFKA
from simstream.settings import Settings, misspelt_variables
from simstream.telemetry.callers import bound, callers_of

_PORT_TRIALS = 3


def find_problems(settings: Settings, roles: Sequence[str]) -> Iterator[SimstreamError]:
    """Return an error for each setting that `serve` with these roles would refuse at its start.

    Asks no broker. Takes a few seconds.
    """
    from simstream.registry.schemas import check_registry
    from simstream.telemetry.tracing import check_tracing

    yield from misspelt_variables().values()
    yield from _recipe(settings)
    yield from _log(settings)
    yield from _raised(lambda: check_registry(settings))
    if "query" in roles:
        yield from _raised(lambda: callers_of(settings.allowed_hosts, settings.query_host, settings.token_file))
    if {"judge", "match"} & {*roles}:
        yield from _raised(lambda: check_tracing(settings))
        yield from _raised(lambda: refuse_bad_state(settings))
        yield from _shards(settings, roles)
    yield from _hosts(settings, roles)
    yield from _raised(lambda: refuse_shared_port(settings, roles))


def refuse_shared_port(settings: Settings, roles: Sequence[str]) -> None:
    """Raise SettingsError if metrics and the role `query` would ask for one port of one address."""
    is_one_port = "query" in roles and settings.http_port == settings.query_port != 0
    if is_one_port and all(_share_ports(settings.http_host, settings.query_host) for _ in range(_PORT_TRIALS)):
        raise SettingsError(
            f"http_port and query_port are both {settings.http_port}, on {settings.http_host} and "
            f"{settings.query_host}",
            "give one of them another port, or 0 for any free port",
        )


def refuse_bad_state(settings: Settings) -> None:
    """Raise UsageError if the state cannot be in the folder that is named.

    A missing folder is fine, `serve` makes it. The cache is not checked: a cache that cannot be used only costs
    time.
    """
    from simstream.files.names import check_own

    if not settings.state:
        return
    folder = Path(settings.state)
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise SettingsError(f"state is {folder}, but {there} is not a folder", "set `state` to a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise SettingsError(
            f"state is {folder}, but this user cannot write to {there}",
            "allow it, or set `state` to another folder",
        )
    if folder.is_dir():
        check_own(folder, os.listdir(folder))


def _recipe(settings: Settings) -> Iterator[SimstreamError]:
    """Check the recipe with its files, and the policy that the settings make of it."""
    from simstream.cli.options import policy_of
    from simstream.text import dictionary, weights
    from simstream.text.fingerprinter import changes_of
    from simstream.text.recipe import PRESETS
    from simstream.text.recipe_file import load_recipe

    recipe = PRESETS["default"]  # in place of one that cannot be read: it fits every right setting
    try:
        recipe = load_recipe(settings.recipe)
        weights.load(recipe, dictionary.load(settings.cache_folder, changes_of(recipe)), settings.cache_folder)
    except SimstreamError as error:
        yield error
    yield from _raised(lambda: policy_of(settings, recipe, ""))


def _log(settings: Settings) -> Iterator[SimstreamError]:
    """Check the log, and the settings of its client also if the log's address is wrong."""
    from simstream.cli.options import open_log

    def check() -> None:
        with open_log(settings) as log:
            log.check()

    if wrong := [*_raised(lambda: open_log(settings).close())]:
        yield from wrong
        settings = structs.replace(settings, log=f"{KAFKA}127.0.0.1:1", log_level=None)
    yield from _raised(check)


def _shards(settings: Settings, roles: Sequence[str]) -> Iterator[SimstreamError]:
    """Check that the policy and the number of shards fit an index on matchers, if a role surely has one."""
    from simstream.cli.options import policy_of
    from simstream.index.shard import check_count
    from simstream.judge.shard_matcher import check_link
    from simstream.log import setting_for_matchers
    from simstream.text.recipe_file import load_recipe

    if settings.shards:
        yield from _raised(lambda: check_count(settings.shards or 0))
    elif "match" not in roles and not setting_for_matchers(settings):
        return
    try:
        policy = policy_of(settings, load_recipe(settings.recipe), "")
    except SimstreamError:
        return  # `_recipe` reports it
    yield from _raised(lambda: check_link(policy))


def _hosts(settings: Settings, roles: Sequence[str]) -> Iterator[SimstreamError]:
    """Check that this machine can listen on the hosts. Ports are not checked: a running service may use them."""
    query_host = {"query_host": settings.query_host} if "query" in roles else {}
    for name, host in ({"http_host": settings.http_host} | query_host).items():
        try:
            bound(host, 0).close()
        except OSError as error:
            yield SettingsError(f"{name} is {host}: {error.strerror}", "give an address of this machine")


def _share_ports(one: str, other: str) -> bool:
    """Return whether this machine refuses one port on both hosts. A port that is in use elsewhere counts, too."""
    try:
        with bound(one, 0, listens=True) as first, bound(other, first.getsockname()[1]):
            return False
    except OSError as error:
        return error.errno == errno.EADDRINUSE


def _raised(check: Callable[[], object]) -> Iterator[SimstreamError]:
    try:
        check()
    except SimstreamError as error:
        yield error
