"""Reads the table [kafka]: settings for the Kafka client. Some are secrets, which are never printed.

    [kafka]
    "security.protocol" = "SASL_SSL"
    "sasl.password.file" = "/run/secrets/kafka"      # the file holds the value

`oauth_cb` names a function as "module:function" (`log/kafka/tokens`).

The same as variables: SIMSTREAM_KAFKA_SECURITY_PROTOCOL, SIMSTREAM_KAFKA_SASL_PASSWORD_FILE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from simstream.errors import SettingsError

Value = str | int | float | bool
KAFKA = "kafka://"
SERVERS = re.compile(r"{0}(,{0})*".format(r"(\[[\da-fA-F:.]+\]|[\w.-]+):\d{1,5}"))
"""`HOST:PORT,...`, as Kafka's own tools take it."""
BOOTSTRAP = "bootstrap_servers"
"""The other name of the setting `log`, for brokers, in the file, as a variable and as a flag."""
VARIABLES = "SIMSTREAM_KAFKA_"
FROM_FILE = ".file"
MAX_BYTES = 64 << 10
"""The greatest size of a password or key file."""
MIN_HIDDEN = 3
"""A shorter secret is not hidden in a text: it stands in half of all words."""
HIDDEN = "(hidden)"
_OWN_FILES = frozenset(
    {"sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.jwt.template.file"}
)
"""The client's own settings that end in `.file`: it reads these files itself."""
OWN: Mapping[str, str] = {
    **dict.fromkeys(
        ("bootstrap.servers", "metadata.broker.list"),
        "leave it out, and name the brokers in `log` or `bootstrap_servers`",
    ),
    **dict.fromkeys(("group.id", "transactional.id"), "leave it out: the service makes it from `prefix`"),
    **dict.fromkeys(
        (
            "acks",
            "auto.offset.reset",
            "check.crcs",
            "delivery.timeout.ms",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "enable.idempotence",
            "enable.partition.eof",
            "group.instance.id",
            "group.protocol",
            "isolation.level",
            "message.timeout.ms",
            "partition.assignment.strategy",
            "partitioner",
            "request.required.acks",
            "statistics.interval.ms",
            "transaction.timeout.ms",
        ),
        "leave it out: the service's rules rely on its own value",
    ),
    "message.max.bytes": "leave it out, and set `max_record_bytes` and the topic's max.message.bytes",
}
"""Settings of the client that only the service sets, and what to do instead."""
SERVICE_LINK: Final = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Kubernetes sets such variables for each service: `SIMSTREAM_QUERY_PORT` for the service `simstream-query`. No
setting of the client ends so."""
_UNDERSCORED = {"log.level": "log_level", "oauth.cb": "oauth_cb"}
"""The client's only names with an underscore, as variables spell them."""
_SECRET = ("password", "passphrase", "secret", "token", "key", "jaas", "credential", "oauthbearer.config", "pem")
_NO_SECRET = (".location", ".file", ".type")


class SettingValue(NamedTuple):
    """A setting's value and where it came from."""

    value: Value
    origin: str


def with_log(given: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings of one origin, with `log` in the place of `bootstrap_servers`.

    Raises SettingsError if that is not `HOST:PORT,...`, or if `log` names another place.
    """
    values = dict(given)
    if BOOTSTRAP not in values:
        return values
    value, origin = values.pop(BOOTSTRAP)
    servers = "".join(str(value).split())
    if not SERVERS.fullmatch(servers):
        shown = "names a user" if "@" in unquote(servers) else f"is {value!r}"  # a password may stand before the @
        raise SettingsError(f"{BOOTSTRAP} {shown} ({origin})", "give HOST:PORT, or several with commas between")
    if "log" in values and names_a_user(str(values["log"].value)):
        raise SettingsError(
            f"log names a user ({values['log'].origin})",
            "give kafka://HOST:PORT, and the user in [kafka] of the settings",
        )
    if "log" in values and values["log"].value != KAFKA + servers:
        raise SettingsError(
            f"log is {values['log'].value!r}, and {BOOTSTRAP} is {value!r} ({origin})",
            "give one of them: both say where records live",
        )
    return {**values, "log": SettingValue(KAFKA + servers, origin)}


def from_table(table: Any, file: str) -> dict[str, SettingValue]:
    """Return the settings in a file's table [kafka]. Dotted names may be quoted. Raises SettingsError."""
    if not isinstance(table, dict):
        raise SettingsError(
            f"kafka is not a table (file {file})", "write the Kafka client's settings under [kafka]"
        )
    values: dict[str, SettingValue] = {}
    for name, value in _leaves(table):
        if not isinstance(value, Value):
            raise SettingsError(
                f"kafka.{name} has a wrong type (file {file})", "give text, a number, true or false"
            )
        _put(values, name, value, f"file {file}", Path(file).parent)
    return values


def from_variables(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    """Return the settings of the variables SIMSTREAM_KAFKA_*. Raises SettingsError."""
    values: dict[str, SettingValue] = {}
    for variable in sorted(environ):
        if is_variable(variable):
            name = variable.removeprefix(VARIABLES).lower().replace("_", ".")
            name = _UNDERSCORED.get(name, name)
            _put(values, name, environ[variable], f"variable {variable}", Path())
    return values


def find_refused(values: Mapping[str, SettingValue]) -> list[SettingsError]:
    """Return an error for each setting that only the service itself may set."""
    return [
        SettingsError(
            f"kafka.{name} ({values[name].origin}) is a setting that only the service sets",
            OWN[name],
        )
        for name in sorted(values.keys() & OWN.keys())
    ]


def is_variable(name: str) -> bool:
    """Return whether a variable names a setting of the Kafka client."""
    return name.startswith(VARIABLES) and name != VARIABLES and not SERVICE_LINK.search(name)


def show_value(name: str, value: SettingValue) -> str:
    """Return what may be printed of a setting: nothing of a secret, or of a value from a file of its own."""
    return HIDDEN if is_secret(name) or ", from " in value.origin else str(value.value)


def names_a_user(address: str) -> bool:
    """Return whether a user, and perhaps a password, stands in an address. A folder may have any name."""
    user, at, _ = unquote(address).partition("@")
    return bool(at) and ":" in user and not os.path.isdir(address)


def has_secret(address: str) -> bool:
    """Return whether a user, a password or a key may stand in a web address."""
    return "?" in address or "#" in address or names_a_user(address)


def is_secret(name: str) -> bool:
    """Return whether the value of a setting of the Kafka client is secret."""
    return any(word in name for word in _SECRET) and not name.endswith(_NO_SECRET)


def without_secrets(text: str, client: Mapping[str, Any]) -> str:
    """Return a text of the client, such as an error, without its secret values."""
    values = [str(value) for name, value in client.items() if is_secret(name)]
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= MIN_HIDDEN:
            text = text.replace(value, HIDDEN)
    return text


def _leaves(table: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in table.items():
        inner = isinstance(value, dict)
        leaves += _leaves(value, f"{before}{name}.") if inner else [(before + name, value)]
    return leaves


def _put(values: dict[str, SettingValue], name: str, value: Value, origin: str, folder: Path) -> None:
    """Add a setting. Its value may stand in a file."""
    if name.endswith(FROM_FILE) and name not in _OWN_FILES:
        path = folder / str(value)
        name, value, origin = name.removesuffix(FROM_FILE), _read(path, name, origin), f"{origin}, from {path}"
    if name in values:
        raise SettingsError(
            f"kafka.{name} is given twice ({values[name].origin}; {origin})", "give the value or its file, not both"
        )
    values[name] = SettingValue(value, origin)


def _read(path: Path, name: str, origin: str) -> str:
    """Return the content of a file without the line end at its end. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"kafka.{name} ({origin}) names {path}: {why}", "name a readable file") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(text) > MAX_BYTES:
        wrong = "is empty" if not text else f"has more than {MAX_BYTES} bytes"
        raise SettingsError(f"kafka.{name} ({origin}) names {path}, which {wrong}", "put only the value into it")
    return text
