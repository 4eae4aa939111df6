"""Gets OAuth tokens for Kafka clients from a function of the user: the setting `oauth_cb`, as `module:function`.

The function is called as the client itself would call it: with the setting `sasl.oauthbearer.config`. It returns a
token and when the token ends, in seconds since 1970; also, if it likes, a principal and extensions.

The client waits for its first token in its constructor, up to 10 s, and raises errors without a cause. So a token
is fetched before a client is made, and all clients share it. The client's own call never raises.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from functools import cache, partial
from typing import Any, Final, NamedTuple

from simstream.errors import NotAdmitted, SettingsError
from simstream.kafka_settings import without_secrets
from simstream.processors import call_in_daemon

OAUTH_CB: Final = "oauth_cb"
MAX_CALL_S: Final = 8.0
"""Seconds that one call may take. The client itself waits 10 s for a token."""
RETRY_S: Final = 5.0
"""Seconds after a failed call in which no caller calls again."""
RENEW_SHARE: Final = 0.75
"""The part of a token's life after which it is renewed. The client asks for another after 0.8 of it."""
MAX_TOKEN_BYTES: Final = 64 << 10
_MAX_SECONDS: Final = 100_000_000_000
"""The year 5138; a larger number is in ms."""
_logger = logging.getLogger("simstream.log")


class Token(NamedTuple):
    """What the client gets, in this order."""

    value: str
    ends: float
    """In seconds since 1970."""
    principal: str = ""
    extensions: Mapping[str, str] = {}


class TokenSource:
    """The tokens of one function, for all clients of the process. Safe between threads.

    A function that hangs costs one thread and one wait, however often a token is asked for.
    """

    def __init__(self, name: str, function: Callable[[str], Any], client: Mapping[str, Any]) -> None:
        """`client` has the user's settings of the Kafka client."""
        self._name = name
        self._function = function
        self._client = client
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = self._renew_at_latest = self._failed_at = 0.0
        """`_renew_at` is in seconds since 1970. The others are of the monotonic clock, which nobody sets back."""
        self._error = ""
        self._call: _Call | None = None

    def token(self, _config: str | None = None) -> Token:
        """Return a token. Waits at most MAX_CALL_S for the function, or for its other callers.

        If the function fails, a line is logged, and the present token stays in use. Once it has ended too, brokers
        refuse it, and the service waits as for brokers that are away. Without any token it raises NotAdmitted.
        """
        with self._lock:
            now = time.time()
            if self._token is None or now >= self._renew_at or time.monotonic() >= self._renew_at_latest:
                self._renew(now)
            if self._token is None:
                raise NotAdmitted(
                    f"there is no OAuth token: kafka.oauth_cb {self._name} {self._error}",
                    "correct the function, and look at the server that it asks",
                )
            has_ended = self._token.ends <= time.time() + 1  # the client would refuse it, and not ask again
            return self._token._replace(ends=time.time() + 2 * RETRY_S) if has_ended else self._token

    def _renew(self, now: float) -> None:
        if self._error and time.monotonic() - self._failed_at < RETRY_S:
            return
        if self._call is None:
            self._call = _Call(self._function, str(self._client.get("sasl.oauthbearer.config", "")))
        call, token = self._call, None
        if not wait([call.outcome], 0 if call.is_late else MAX_CALL_S).done:
            call.is_late = True
            trouble = f"has not returned after {time.monotonic() - call.began:.0f} s"
        else:
            self._call = None
            if (error := call.outcome.exception()) is not None:  # also SystemExit
                trouble = f"raised {type(error).__name__}: {error}"
            else:
                token, trouble = read_token(call.outcome.result(), time.time())
        if token is None:
            self._fail(trouble)
        else:
            self._token, self._error = token, ""
            share_s = RENEW_SHARE * (token.ends - now)
            self._renew_at, self._renew_at_latest = now + share_s, time.monotonic() + share_s

    def _fail(self, why: str) -> None:
        self._error, self._failed_at = without_secrets(" ".join(why.split())[:300], self._client), time.monotonic()
        if self._token is not None:
            _logger.warning("kafka.oauth_cb %s %s; the present token stays in use", self._name, self._error)


class _Call:
    """One call of the function, in a thread of its own that keeps no program alive."""

    def __init__(self, function: Callable[[str], Any], config: str) -> None:
        self.began = time.monotonic()
        self.outcome = call_in_daemon(partial(function, config), "oauth")
        self.is_late = False
        """Whether a caller has waited for it in vain. Nobody waits again."""


def token_settings(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's settings with a function in the place of `oauth_cb`, if it is set.

    Raises SettingsError, and NotAdmitted if there is no token. May wait MAX_CALL_S for the function.
    """
    if OAUTH_CB not in client:
        return {}
    mechanism = str(client.get("sasl.mechanisms", client.get("sasl.mechanism", "")))
    if mechanism.upper() != "OAUTHBEARER":
        raise SettingsError(
            f"kafka.{OAUTH_CB} is set, and sasl.mechanisms is {mechanism or 'not'}" + ("" if mechanism else " set"),
            'write "sasl.mechanisms" = "OAUTHBEARER" under [kafka]',
        )
    source = _source(str(client[OAUTH_CB]), tuple(sorted(client.items())))
    source.token()
    return {OAUTH_CB: source.token}


@cache
def _source(name: str, client: tuple[tuple[str, Any], ...]) -> TokenSource:
    return TokenSource(name, load_function(name), dict(client))


def load_function(name: str) -> Callable[[str], Any]:
    """Return the function `module:function`. Raises SettingsError."""
    module, _, function = name.partition(":")
    advice = "give module:function, of a module that is installed or on PYTHONPATH"
    if not module or not function:
        raise SettingsError(f"kafka.{OAUTH_CB} is {name!r}", advice)
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise SettingsError(f"kafka.{OAUTH_CB} {name} cannot be imported ({why})", advice) from None
    if not callable(found):
        raise SettingsError(f"kafka.{OAUTH_CB} {name} is no function but {type(found).__name__}", advice)
    checked: Callable[[str], Any] = found
    return checked


def read_token(found: Any, now: float) -> tuple[Token | None, str]:
    """Return the token that the function returned, or None and a sentence about what is wrong with it."""
    if not isinstance(found, tuple) or not 2 <= len(found) <= 4:
        return None, f"returned {type(found).__name__}, not a token and its end in seconds since 1970"
    value, ends = found[0], found[1]
    principal, extensions = (*found[2:], "", {})[:2]
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TOKEN_BYTES or not _is_plain(value):
        return (
            None,
            f"returned no token, but {type(value).__name__}; a token is ASCII without spaces, at most 64 KB",
        )
    if not isinstance(ends, int | float) or isinstance(ends, bool) or not 0 <= ends < _MAX_SECONDS:
        return None, "returned an end that is no number of seconds since 1970"
    if ends <= now:
        return None, f"returned a token that ended {now - ends:.0f} s ago"
    if not isinstance(principal, str) or not isinstance(extensions, dict):
        return None, "returned a principal that is no text, or extensions that are no dict"
    if not all(isinstance(part, str) and _is_plain(part) for pair in extensions.items() for part in pair):
        return None, "returned extensions that are not all ASCII text without spaces"
    return Token(value, float(ends), principal, extensions), ""


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
