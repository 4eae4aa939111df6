"""Defines the options that mean the same in every command, such as --recipe, and makes settings of them."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from simstream.errors import UsageError
from simstream.processors import cores
from simstream.settings import ResolvedSettings, Settings, misspelt_variables, resolve

if TYPE_CHECKING:
    from simstream.deduper import Deduper
    from simstream.judge.policy import Policy
    from simstream.log.base import Log
    from simstream.text.fingerprinter import Fingerprinter
    from simstream.text.recipe import Recipe

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE_S: Final = 15.0
"""Seconds that a command waits for a broker; a service waits for the setting `give_up_after`."""
LEVELS: Final = ("debug", "info", "warning", "error")
_VERBOSITY: Final = "simstream.verbosity"
ROLES: Final = ("fingerprint", "judge", "query", "match")
RECIPE_METAVAR: Final = "NAME|FILE.toml"
RECIPE_HELP: Final = "Make fingerprints by this recipe: default, google2007, fnv1-tf, shingles, or a file."


def _together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _roles(_context: click.Context, _option: click.Parameter, given: str) -> tuple[str, ...]:
    chosen = ROLES[:2] if given == "all" else tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    unknown = set(chosen) - set(ROLES)
    if unknown:
        raise UsageError(
            f"--roles names {sorted(unknown)[0]!r}, which is not a role",
            "write all alone, or a list of fingerprint, judge, query and match",
        )
    return chosen


def _note_verbosity(context: click.Context, _option: click.Parameter, given: int) -> None:
    context.meta[_VERBOSITY] = given


def _level(context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Return the level that --log-level names, or -v, counted from the level that the command has without them."""
    more = context.meta.get(_VERBOSITY, 0)
    if more and given is not None:
        raise UsageError("-v and --log-level are both given", "give one of them")
    usual = LEVELS.index("info" if context.info_name in ("serve", "news") else "warning")
    return LEVELS[max(0, usual - more)] if more else given


settings_options = click.option(
    "--config", metavar="FILE", help="Read settings from FILE (default: simstream.toml, if it exists)."
)
_recipe = click.option("--recipe", metavar=RECIPE_METAVAR, help=RECIPE_HELP)
recipe_option = _together(_recipe, settings_options)
similarity_option = click.option(
    "--similarity", metavar="S", help="Least similarity of a match, 0 to 1, by the sketch (default: the recipe's)."
)
judging_options = _together(
    _recipe,
    click.option(
        "--distance",
        metavar="K",
        help="Greatest Hamming distance of a match (default: the recipe's; for dedup and explain -i: auto).",
    ),
    similarity_option,
    click.option("--window", metavar="72h", help="Forget pages older than this, by stream time (default: never)."),
    click.option(
        "--link",
        metavar="any|canonical",
        help="Tie clusters by any match (default), or only by matches with canonical pages.",
    ),
    settings_options,
)
field_options = _together(
    click.option(
        "--text-field", metavar="NAME", help="Field or column with the text, such as body.content (default: text)."
    ),
    click.option("--id-field", metavar="NAME", help="Field or column with the id (default: id)."),
)
versions_option = click.option(
    "--versions", is_flag=True, help="Take pages of one id for versions of one page; the last one counts."
)
log_options = _together(
    click.option(
        "--log",
        metavar="ADDRESS",
        help="Where records live: kafka://HOST:PORT,… or a directory (default: kafka://127.0.0.1:9092).",
    ),
    click.option("--bootstrap-servers", metavar="HOST:PORT,…", help="The same as --log kafka://HOST:PORT,…"),
    click.option("--prefix", metavar="NAME", help="First part of the topics' names (default: simstream)."),
    click.option(
        "--publish-to",
        metavar="NAME",
        help="First part of the names of verdicts, positions and matches (default: --prefix).",
    ),
    click.option(
        "--pages-topic",
        metavar="NAME",
        help="Full name of your own topic of pages; it is never created (default: PREFIX.pages).",
    ),
    click.option("--fingerprints-topic", metavar="NAME", help="Full name of the topic of fingerprints."),
    click.option(
        "--verdicts-topic",
        metavar="NAME",
        help="Full name of the topic of verdicts, after which those of positions and matches are named.",
    ),
    click.option("--dead-letters-topic", metavar="NAME", help="Full name of the topic of dead letters."),
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        is_eager=True,
        callback=_note_verbosity,
        help="Write more log lines to stderr; -vv: still more.",
    ),
    click.option(
        "--log-level",
        metavar="LEVEL",
        callback=_level,
        help="Write log lines from this level on: debug, info, warning, error.",
    ),
)


class _CountType(click.IntRange):
    """A number from 0 on. One that no list can have counts as the largest that one can."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return min(super().convert(value, param, ctx), sys.maxsize)


COUNT = _CountType(min=0)


class ShareType(click.FloatRange):
    """A number within a range, and not NaN, which is neither below nor above it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        share = super().convert(value, param, ctx)
        return self.fail("nan is no number", param, ctx) if isnan(share) else share


roles_option = click.option(
    "--roles",
    default="all",
    show_default=True,
    metavar="all|fingerprint,judge,query,match",
    callback=_roles,
    help="Roles that run in the process; all is fingerprint,judge.",
)
"""The command gets the names of the roles."""
caller_options = _together(
    click.option(
        "--allowed-hosts", metavar="NAME,…", help="Answer requests to these host names, too, not only to localhost."
    ),
    click.option("--token-file", metavar="FILE", help="Require the token in FILE from callers."),
)


def settle(config: str | None, **flags: Any) -> Settings:
    """Return the settings of one command. Raises what `resolve_settings` does."""
    return resolve_settings(config, flags).settings


def resolve_settings(config: str | None, flags: Mapping[str, Any]) -> ResolvedSettings:
    """Return the settings of one command and where each comes from. Log to stderr if a setting names a level.

    Raises SettingsError, also for a SIMSTREAM_* variable that nothing reads and Kubernetes does not set.
    """
    for error in misspelt_variables().values():
        raise error
    found = resolve(flags, file=config)
    if level := found.settings.log_level:
        from simstream.telemetry.logging import log_to_stderr

        log_to_stderr(found.settings.log_format, level)
    return found


def settle_on_all_cores(config: str | None, **flags: Any) -> Settings:
    """Return the settings of one command; by default threads and extraction processes are one for each core."""
    return resolve_on_all_cores(config, **flags).settings


def resolve_on_all_cores(config: str | None, **flags: Any) -> ResolvedSettings:
    """Do what `settle_on_all_cores` does, and also return where each value comes from."""
    origin = resolve_settings(config, flags).origin
    unsaid = [name for name in ("threads", "extract.workers") if origin[name] == "default"]
    return resolve({**flags, **dict.fromkeys(unsaid, cores())}, file=config)


def make_fingerprinter(
    settings: Settings,
    say: Callable[[str], None],
    workers: int | None = None,
    clock: Callable[[], float] | None = None,
) -> Fingerprinter:
    """Return a fingerprinter under the recipe of the settings. Raises SettingsError.

    `workers`: the number of extraction processes (default: as the settings say).
    """
    from simstream.text.fingerprinter import Fingerprinter
    from simstream.text.recipe_file import load_recipe

    extract = settings.extract
    return Fingerprinter(
        load_recipe(settings.recipe),
        settings.cache_folder,
        workers=extract.workers if workers is None else workers,
        timeout_s=extract.timeout_s,
        memory_bytes=extract.memory_bytes,
        clock=clock,
        say=say,
    )


def policy_of(settings: Settings, recipe: Recipe, recipe_id: str) -> Policy:
    """Return the policy that the settings make of a recipe. Raises SettingsError."""
    from simstream.judge.policy import make_policy

    return make_policy(
        recipe,
        recipe_id,
        distance=settings.distance,
        similarity=settings.similarity,
        window_ms=settings.window_ms,
        link=settings.link,
    )


def _temporary_folder() -> str | None:
    """Return the folder for temporary files, or None if the system has none that can be written to."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def make_deduper(settings: Settings, path: Path | None = None, save_s: float = 10.0) -> Deduper:
    """Return a Deduper under the recipe and the policy of the settings. Raises SettingsError.

    With `path`, its state is in this folder, and is saved every `save_s` seconds; see Deduper for what that raises.
    """
    from simstream.cli.progress import say
    from simstream.deduper import Deduper

    return Deduper(
        path=path,
        scratch=_temporary_folder() if path is None else path.parent,
        save_pages=sys.maxsize,
        save_s=save_s,
        recipe=settings.recipe,
        distance=settings.distance,
        similarity=settings.similarity,
        window=settings.window if settings.window_ms else None,
        link=settings.link,
        cache=settings.cache_folder,
        workers=settings.extract.workers,
        timeout_s=settings.extract.timeout_s,
        memory_bytes=settings.extract.memory_bytes,
        max_record_bytes=settings.max_record_bytes,
        say=say,
    )


def open_log(settings: Settings, patience: float = PATIENCE_S) -> Log:
    """Return the log that the settings name. Waits up to `patience` seconds for a broker.

    A warning of a command that writes no log is a line as all that it says.
    """
    from simstream.log import open_log as open_address
    from simstream.log import options_of
    from simstream.log.options import TOPICS
    from simstream.telemetry.logging import OneLineFormatter, RepetitionFilter

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLineFormatter("simstream: %(message)s"))
        logging.lastResort.filters = [RepetitionFilter()]
    options = options_of(settings, patience)
    log = open_address(settings.log, options)  # first: it refuses an address that holds a password
    if settings.log_level:  # only on request: services write at level info without it
        names = ", ".join(options.full_name(topic) for topic in TOPICS)
        logging.getLogger("simstream.log").info("the log is %s; its topics: %s", settings.log, names)
    return log
