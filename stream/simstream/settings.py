"""Resolves all settings of the service, from flags, SIMSTREAM_* variables, simstream.toml and defaults.

A dotted name is one setting: `frame.max_pages` is `[frame] max_pages` in the file and
`SIMSTREAM_FRAME_MAX_PAGES` in the environment. `[kafka]` is the client's own, see `kafka_settings`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from simstream import kafka_settings
from simstream.errors import InputMissing, SettingsError, SimstreamError
from simstream.kafka_settings import BOOTSTRAP, SettingValue
from simstream.processors import cores
from simstream.setting_groups import (
    ClusterAlertSettings,
    DeadLetterSettings,
    ExtractSettings,
    FieldSettings,
    FrameSettings,
    Positive,
    ReadSettings,
    RegistrySettings,
)
from simstream.text.recipe import MAX_DISTANCE
from simstream.wire.field_paths import FieldPaths, parse_paths
from simstream.wire.page_headers import parse_names

FILE = "simstream.toml"
_VARIABLES = "SIMSTREAM_"
_OTHER_VARIABLES = frozenset({"SIMSTREAM_CONFIG", "SIMSTREAM_CORPORA", "SIMSTREAM_WEBHOOK_SECRET"})
"""Variables that are not settings: the settings file, the evaluation corpora of the tests, the webhooks' secret."""
CRAWL_SETTINGS: Final = (
    "SIMSTREAM_LINKS",
    "SIMSTREAM_TRIALS",
    "SIMSTREAM_PRIORITY",
    "SIMSTREAM_HELD",
    "SIMSTREAM_DUPLICATE_DEPTH",
    "SIMSTREAM_PATTERNS",
    "SIMSTREAM_DROP_ITEMS",
    "SIMSTREAM_WAIT",
    "SIMSTREAM_ROOM_WAIT",
    "SIMSTREAM_IN_FLIGHT",
)
"""Settings of a Scrapy project alone (`crawlers/options`). As variables they have no effect."""
_MIN_DURATIONS_MS = {
    "window": 0,
    "give_up_after": 1_000,
    "stop_timeout": 1_000,
    "gap_patience": 0,
    "snapshot_every": 0,
    "stuck_after": 2_000,
}
"""The least of each duration. An answer of a broker, a last batch or one turn of a loop may take so long."""
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")
_LISTS = ("allowed_hosts", "verdict_headers", BOOTSTRAP)
"""Settings that are lists: in the file they may be arrays."""
_PLACES_OF_VERDICTS = ("publish_to", "verdicts_topic")
"""Both say where verdicts go. A later source (file, variable, flag) that gives one replaces both."""
_URL = re.compile(r"https?://[\w.:\[\]/,-]+")
"""One or more addresses of a registry, with commas between them."""
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Seconds:
    """The seconds of the setting with this name, a duration."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, settings: Settings, _: type[Settings]) -> float:
        return duration_ms(self._name, getattr(settings, self._name)) / 1000


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    log: str = "kafka://127.0.0.1:9092"
    """`kafka://HOST:PORT,…` or a directory. `bootstrap_servers`, as `HOST:PORT,…`, means the same for brokers."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,180}\Z")] = "simstream"
    """The first part of the topics' names."""
    publish_to: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,180}\Z")] | None = None
    """The prefix of verdicts, positions and matches; not set: `prefix`, or what `verdicts_topic` says. So several
    policies may judge one log."""
    pages_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,249}\Z")] | None = None
    """The full name of your own topic of pages, which is never created; not set: `PREFIX.pages`."""
    fingerprints_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,230}\Z")] | None = None
    """The full name of the topic of fingerprints, after which the fingerprinters' group is named; not set:
    `PREFIX.fingerprints`."""
    verdicts_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,170}\Z")] | None = None
    """The full name of the topic of verdicts, in the place of `publish_to`; not set: `verdicts` under that prefix.
    Positions and matches are named after it: `a.verdicts` has `a.positions`, and `a` has `a.verdicts.positions`."""
    dead_letters_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,249}\Z")] | None = None
    """The full name of the topic of dead letters; not set: `PREFIX.dead-letters`."""
    verdict_headers: str = "traceparent,tracestate"
    """Headers that a verdict takes over from its page, at most 16. All values together have 2,048 bytes at most; a
    value that does not fit is left out and counted."""
    pages_format: Literal["json", "avro", "protobuf", "json_schema"] = "json"
    """The format of the values of `pages`. In all but `json`, a value begins with the id that its schema has in a
    schema registry."""
    verdicts_format: Literal["json", "avro", "protobuf", "json_schema"] = "json"
    """The format of the values of `verdicts`. In all but `json`, a value begins with the id that its schema has in
    a schema registry."""
    recipe: str = "default"
    """How a page becomes a fingerprint: a preset, or a file of yours."""
    distance: Annotated[int, Meta(ge=0, le=MAX_DISTANCE)] | None = None
    """The greatest Hamming distance of a match; not set: 8 for the preset `default`, 3 for the others."""
    similarity: str | None = None
    """The least similarity that the sketch must confirm, 0 to 1; not set: 0.6 for the preset `default`."""
    window: str | None = None
    """How long a page stays live, by stream time, such as `72h`; not set: for ever."""
    link: Literal["any", "canonical"] = "any"
    """What ties a cluster: `any` match, or only a match with the cluster's `canonical` page, its oldest."""
    cache: str | None = None
    """The folder of tables that are built once; not set: `~/.cache/simstream`."""
    http_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """The address of metrics and health."""
    http_port: Annotated[int, Meta(ge=0, le=65_535)] = 9464
    """The port of metrics and health."""
    query_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """The address of the role `query`."""
    query_port: Annotated[int, Meta(ge=0, le=65_535)] = 9470
    """The port of the role `query`."""
    allowed_hosts: str | None = None
    """Host names, separated by commas. The role `query` and the news page answer to them and to localhost."""
    token_file: str | None = None
    """A file with the token that `/judge` and the news page require; not set: they require no token."""
    threads: Positive = msgspec.field(default_factory=lambda: max(1, cores() - 1))
    """Threads that fingerprint, and as many by which the judge looks up pages in a large index; not set: one for
    each core but one, which reads and publishes."""
    state: str | None = None
    """The folder of the state of judge and matcher; not set: the state is only in memory."""
    snapshot_every: str = "5m"
    """How often a snapshot of the state is taken. Copies take at most a twentieth of the judge's time."""
    snapshot_pages: Positive = 1_000_000
    """A snapshot is also taken after so many pages. This bounds what a restart replays."""
    max_record_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10 << 20
    """A page whose record is longer is `unreadable`."""
    give_up_after: str = "5m"
    """A role that could not work for so long stops with an error; at least 1s."""
    stop_timeout: str = "30s"
    """How long a process may take to stop; at least 1s."""
    gap_patience: str = "30s"
    """How long a gap in the log may stay open before the judge is unready."""
    stuck_after: str = "60s"
    """`/health/live` fails if a loop has not turned for so long; at least 2s."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """The least severe log lines that a command writes; not set: `info` for `serve` and `news`, else `warning`."""
    log_format: Literal["text", "json"] = "text"
    """How `serve` and `news` write log lines: as text, or each as a JSON object."""
    otlp_endpoint: str | None = None
    """The address of an OTLP receiver over HTTP, such as `http://127.0.0.1:4318`, for spans; not set: no spans."""
    shards: Annotated[int, Meta(ge=0, le=256)] | None = None
    """Shards of the index on matchers; not set: one for each partition of `matches`. 0: the judge's own index."""
    matches: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,60}\Z")] = "matches"
    """The last part of the name of the topic of answers. Another name brings up new shards beside the old ones. A
    judge does not start without a topic of that other name."""
    instance: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,180}\Z")] | None = None
    """The name of a matcher that keeps its shards over a restart; each matcher needs its own."""
    copy: Annotated[int, Meta(ge=1, le=3)] = 1
    """The copy of the index, 1 to 3, that a matcher serves."""
    max_ahead: Annotated[int, Meta(ge=512, le=1_000_000)] = 2_048
    """How many frames a matcher may answer beyond the published position."""
    frame: FrameSettings = FrameSettings()
    extract: ExtractSettings = ExtractSettings()
    read: ReadSettings = ReadSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    cluster_alert: ClusterAlertSettings = ClusterAlertSettings()
    fields: FieldSettings = FieldSettings()
    registry: RegistrySettings = RegistrySettings()
    kafka: dict[str, str | int | float | bool] = {}
    """Values may be secret: print only what `kafka_settings.show_value` returns."""

    def __repr__(self) -> str:
        return f"Settings(log={self.log!r}, prefix={self.prefix!r}, ...)"  # never `kafka`

    @property
    def window_ms(self) -> int | None:
        """The window in ms; None without a window."""
        return None if self.window in (None, "", "none") else duration_ms("window", self.window or "")

    give_up_s = _Seconds("give_up_after")
    stop_timeout_s = _Seconds("stop_timeout")
    gap_patience_s = _Seconds("gap_patience")
    stuck_after_s = _Seconds("stuck_after")
    snapshot_every_s = _Seconds("snapshot_every")

    @property
    def field_paths(self) -> FieldPaths | None:
        """Where the JSON of `pages` has its fields; None if each has its own name. Raises SettingsError."""
        return parse_paths(msgspec.structs.asdict(self.fields))

    @property
    def verdict_header_names(self) -> tuple[str, ...]:
        """The names in `verdict_headers`. Raises SettingsError."""
        return parse_names(self.verdict_headers)

    @property
    def cache_folder(self) -> Path:
        """The folder of tables that are built once."""
        return Path(self.cache) if self.cache else default_cache()


class ResolvedSettings(NamedTuple):
    """Settings, and the origin of each dotted name: a flag, a variable, the file, or "default"."""

    settings: Settings
    origin: dict[str, str]


def default_cache() -> Path:
    """Return `$XDG_CACHE_HOME/simstream`, or `~/.cache/simstream`.

    A relative variable does not count. A user without a home has `/`, as in containers.
    """
    bases = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"), "/.cache"
    return Path(next(filter(os.path.isabs, bases)), "simstream")


MAX_DURATION_MS: Final = 36_500 * 86_400_000
"""A hundred years. The system's own clocks and waits bear some 290 years."""


def duration_ms(name: str, text: str) -> int:
    """Return a duration such as `72h`, `30m`, `1.5d` or `500ms` in ms. Raises SettingsError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", str(text))
    ms = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if ms > MAX_DURATION_MS:
        raise SettingsError(f"{name} is {text!r}", "give at most 36500d, a hundred years")
    if ms <= 0:
        raise SettingsError(f"{name} is {text!r}", "give a positive duration such as 72h, 30m, 10s or 500ms")
    return int(ms)


def names() -> dict[str, Any]:
    """Return every dotted name with its default."""
    flat: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        default = getattr(Settings(), field.name)
        if isinstance(default, msgspec.Struct):
            for inner in msgspec.structs.fields(default):
                flat[f"{field.name}.{inner.name}"] = getattr(default, inner.name)
        elif field.name != "kafka":
            flat[field.name] = default
    return flat


def resolve(
    flags: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
    wrong: list[SimstreamError] | None = None,
) -> ResolvedSettings:
    """Merge all sources. `flags` maps dotted names to values, None for a flag that was not given.

    Raises SettingsError, which names the setting and its origin, and InputMissing if `file` does not exist. If
    `wrong` is a list, every SettingsError is added to it instead, and the setting keeps its default.
    """
    environ = os.environ if environ is None else environ
    found: list[SettingsError] = []
    values: dict[str, Any] = {}
    origin = dict.fromkeys(names(), "default")
    path = file or environ.get("SIMSTREAM_CONFIG")
    in_file = {name: SettingValue(value, f"file {path or FILE}") for name, value in _from_file(path, found).items()}
    for given in (in_file, _from_variables(environ), _from_flags(flags)):
        try:
            given = kafka_settings.with_log(given)
        except SettingsError as error:
            found.append(error)
            given.pop(BOOTSTRAP)
        if given.keys() & _PLACES_OF_VERDICTS:  # a later source replaces the place as a whole
            for name in _PLACES_OF_VERDICTS:
                values.pop(name, None)
                origin[name] = "default"
        for name, (value, where) in given.items():
            if isinstance(value, str) and "\0" in value:  # no path or name of the system has one
                found.append(SettingsError(f"{name} is {value!r} ({where})", "leave the NUL out"))
            else:
                values[name], origin[name] = value, where
    kafka = _kafka(values.pop("kafka", {}), origin.pop("kafka", "").removeprefix("file "), environ, found)
    origin |= {f"kafka.{name}": given.origin for name, given in kafka.items()}
    settings = msgspec.structs.replace(
        _convert(values, origin, found), kafka={name: given.value for name, given in kafka.items()}
    )
    settings = _without_malformed(settings, origin, found)
    if wrong is None and found:
        raise found[0]
    if wrong is not None:
        wrong.extend(found)
    return ResolvedSettings(settings, origin)


def refuse_paths(settings: Settings, sender: str) -> None:
    """Raise SettingsError unless `pages` takes JSON whose fields have their own names, which `sender` sends."""
    if settings.pages_format != "json":
        raise SettingsError(
            f"{sender} cannot send to a topic whose pages_format is {settings.pages_format}",
            "send pages with your own producer and its serializer",
        )
    if settings.field_paths is not None:
        raise SettingsError(
            f"{sender} cannot send to a topic whose pages have the fields of [fields]",
            "send pages with your own producer, under the names in [fields]",
        )


def misspelt_variables(environ: Mapping[str, str] | None = None) -> dict[str, SettingsError]:
    """Return an error for each SIMSTREAM_* variable with a value that nothing reads and Kubernetes does not set."""
    environ = os.environ if environ is None else environ
    known = [_variable(name) for name in (*names(), BOOTSTRAP)]
    return {
        name: SettingsError(f"the variable {name} belongs to no setting", _advice_on_unknown(name, known))
        for name in unknown_variables(environ)
        if environ[name] and not kafka_settings.SERVICE_LINK.search(name)
    }


def _advice_on_unknown(name: str, known: Collection[str]) -> str:
    """Return advice for an unknown name."""
    table, _, own = name.rpartition(".")
    if table and own in known:
        return f"write {own} above [{table}]: all that stands below a [table] belongs to it"
    if name in CRAWL_SETTINGS:
        return "unset it, and write it into Scrapy's settings.py"
    folded = {one.casefold(): one for one in sorted(known)}
    close = get_close_matches(name.casefold(), folded, 1, 0.85)
    return f"use {folded[close[0]]}, if you mean that" if close else "see `simstream config` for all settings"


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the SIMSTREAM_* variables that nothing reads, sorted: misspelt, or set by Kubernetes."""
    environ = os.environ if environ is None else environ
    known = {_variable(name) for name in (*names(), BOOTSTRAP)} | _OTHER_VARIABLES
    unknown = [name for name in environ if name.startswith(_VARIABLES) and name not in known]
    return sorted(name for name in unknown if not kafka_settings.is_variable(name))


def _from_variables(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    variables = {name: _variable(name) for name in (*names(), BOOTSTRAP)}
    return {
        name: SettingValue(environ[variable], f"variable {variable}")
        for name, variable in variables.items()
        if environ.get(variable) and not _LINK_VALUE.match(environ[variable])
    }


def _from_flags(flags: Mapping[str, Any]) -> dict[str, SettingValue]:
    return {
        name: SettingValue(value, f"flag --{name.replace('_', '-').replace('.', '-')}")
        for name, value in flags.items()
        if value is not None
    }


def _variable(name: str) -> str:
    return _VARIABLES + name.replace(".", "_").upper()


def _without_malformed(settings: Settings, origin: Mapping[str, str], wrong: list[SettingsError]) -> Settings:
    """Return the settings with the default in place of each malformed value. The types are checked already.

    Adds an error for each malformed value to `wrong`.
    """
    checks: list[tuple[str, Callable[[Settings], object]]] = [
        *((name, partial(_check_duration, name)) for name in _MIN_DURATIONS_MS),
        *(
            (f"fields.{one}", lambda settings, one=one: parse_paths({one: getattr(settings.fields, one)}))
            for one in FieldSettings.__struct_fields__
        ),
        ("fields", lambda settings: settings.field_paths),  # text and html have one path
        ("verdict_headers", lambda settings: settings.verdict_header_names),
        ("registry.url", _check_url),
    ]
    for name, check in checks:
        try:
            check(settings)
        except SettingsError as error:
            where = f" ({origin[name]})" if name in origin else ""
            wrong.append(SettingsError(error.what + where, error.todo))
            settings = _with_default(settings, "fields.html" if name == "fields" else name)
    return settings


def _with_default(settings: Settings, name: str) -> Settings:
    table, _, own = name.rpartition(".")
    change = {own: names()[name]}
    if table:
        change = {table: msgspec.structs.replace(getattr(settings, table), **change)}
    return msgspec.structs.replace(settings, **change)


def _check_duration(name: str, settings: Settings) -> None:
    """Raise SettingsError unless this is a duration that is long enough."""
    text, min_ms = getattr(settings, name), _MIN_DURATIONS_MS[name]
    ms = settings.window_ms if name == "window" else duration_ms(name, text)
    if ms is not None and ms < min_ms:
        advice = f"give {min_ms // 1000}s or more: a shorter time stops a healthy service"
        raise SettingsError(f"{name} is {text!r}", advice)


def _check_url(settings: Settings) -> None:
    """Raise SettingsError if registry.url is malformed. The error never shows a password."""
    url = settings.registry.url
    if url is None or _URL.fullmatch(url):
        return
    if "@" in unquote(url):
        what, todo = "holds a user or a password", "name them in registry.user and registry.password_file"
    else:
        what, todo = f"is {url!r}", "give an address such as https://registry.example:8081"
    raise SettingsError(f"registry.url {what}", todo)


def _kafka(
    table: Any, file: str, environ: Mapping[str, str], wrong: list[SettingsError]
) -> dict[str, kafka_settings.SettingValue]:
    found: dict[str, kafka_settings.SettingValue] = {}
    for given in (partial(kafka_settings.from_table, table, file), partial(kafka_settings.from_variables, environ)):
        try:
            found |= given()
        except SettingsError as error:
            wrong.append(error)
    wrong += kafka_settings.find_refused(found)
    return {name: given for name, given in found.items() if name not in kafka_settings.OWN}


def _from_file(file: str | None, wrong: list[SettingsError]) -> dict[str, Any]:
    path = Path(file or FILE)
    if not path.is_file():
        if file:
            raise InputMissing(f"{file} is not a file", "name the settings file with --config or SIMSTREAM_CONFIG")
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read as TOML ({error})", "correct the file") from error
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict) and name != "kafka":
            flat.update({f"{name}.{inner}": item for inner, item in value.items()})
        elif name in _LISTS and isinstance(value, list):
            flat[name] = ",".join(map(str, value))
        else:
            flat[name] = value
    known = {*names(), "kafka", BOOTSTRAP}
    unknown = sorted(flat.keys() - known)
    wrong += [SettingsError(f"{path} has no setting {name!r}", _advice_on_unknown(name, known)) for name in unknown]
    return {name: value for name, value in flat.items() if name not in unknown}


def _convert(values: Mapping[str, Any], origin: Mapping[str, str], wrong: list[SettingsError]) -> Settings:
    good: dict[str, Any] = {}
    for name, value in values.items():
        try:
            msgspec.convert(_nested({name: value}), Settings, strict=False)
            good[name] = value
        except msgspec.ValidationError:
            advice = _advice(name)
            if name == "distance" and str(value).lower() == "auto":
                advice += "; only `simstream dedup` and `explain -i` take auto, as the flag `--distance auto`"
            wrong.append(SettingsError(f"{name} is {value!r} ({origin.get(name, FILE)})", advice))
    return msgspec.convert(_nested(good), Settings, strict=False)


def check_value(name: str, setting: str, value: object) -> None:
    """Raise SettingsError if the value of an argument does not fit the type and range of this setting."""
    try:
        msgspec.convert(_nested({setting: value}), Settings)
    except msgspec.ValidationError:
        raise SettingsError(f"{name} is {value!r}", _advice(setting)) from None


def _advice(name: str) -> str:
    """Return what to give for this setting. It comes from the setting's type, so that no range is written twice."""
    kind: Any = Settings
    for part in name.split("."):
        kind = next(field.type for field in msgspec.structs.fields(kind) if field.name == part)
    found = msgspec.inspect.type_info(kind)
    if isinstance(found, msgspec.inspect.UnionType):
        found = found.types[0]
    match found:
        case msgspec.inspect.IntType(ge=least, le=most):
            return "give a whole number" + _range(least, most)
        case msgspec.inspect.FloatType(ge=least, le=most):
            return "give a number" + _range(least, most)
        case msgspec.inspect.LiteralType(values=values):
            return f"use {' or '.join(str(value) for value in values)}"
        case msgspec.inspect.BoolType():
            return "use true or false"
        case msgspec.inspect.StrType(pattern=str() as pattern):
            longest = pattern.partition("{1,")[2].partition("}")[0]
            return f"use letters, digits, '.', '_' and '-', at most {longest}"
        case _:
            return "give text"


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return "" if least is None else f", {least} or more"
    return f" from {least} to {most}"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        group, _, inner = name.partition(".")
        if inner:
            tree.setdefault(group, {})[inner] = value
        else:
            tree[name] = str(value) if name in ("similarity", "window") else value
    return tree
