"""Decides who may ask over HTTP: by the address of the port, allowed host names, web origins and the token.

A web page's script may send requests anywhere. With a host name that resolves to 127.0.0.1 (DNS rebinding), a
foreign web page could read a port that only this machine reaches. Such a request has that name in its `Host`.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import re
import socket
from base64 import b64decode
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from simstream.errors import SettingsError

MIN_TOKEN_CHARS: Final = 16
"""Characters; a shorter token could be guessed."""
MAX_TOKEN_CHARS: Final = 1024
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+")
CHALLENGE: Final = 'Basic realm="simstream", charset="UTF-8"'


class CallerRefusal(NamedTuple):
    """Why a request is refused: the HTTP status, and a sentence."""

    status: int
    why: str


class CallerRules:
    """Decides which requests a port answers: by address, `localhost` or a configured name, and by a token."""

    def __init__(self, names: Collection[str] = (), token: str | None = None, own: str = "") -> None:
        """Trust `names` as `Host` and as origin. Answer to `own`, too, but do not trust it as origin."""
        self._names = frozenset(map(_plain, names))
        self._own = _plain(own)
        self._token = None if token is None else token.encode()

    def check_host(self, host: str | None, origin: str | None) -> CallerRefusal | None:
        """Return why a request with these headers is refused, or None. Every browser sends `Host`."""
        if host and not self._answers_to(_name(host)):
            return CallerRefusal(
                421, "this port does not answer to the name in Host: add the name to the setting `allowed_hosts`"
            )
        if origin is not None and not self._is_own(origin, host or ""):
            return CallerRefusal(
                403, "a web page of another origin may not ask: add its host to the setting `allowed_hosts`"
            )
        return None

    def check_token(self, authorization: str | None) -> CallerRefusal | None:
        """Return why a caller with this header is refused; None if it has the token, or if no token is set."""
        if self._token is None or hmac.compare_digest(_given(authorization or ""), self._token):
            return None
        return CallerRefusal(
            401, "this request needs the token in `token_file`: send it as Bearer, or as the password of Basic"
        )

    def _answers_to(self, name: str) -> bool:
        return _is_address(name) or name in ("localhost", self._own) or name in self._names

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether the request comes from a trusted web page: from this port, or from a configured name."""
        try:
            found = urlsplit(origin)
        except ValueError:
            return False
        own = found.netloc.lower() == host.lower() != ""
        return found.scheme in ("http", "https") and (own or _name(found.netloc) in self._names)


def callers_of(allowed_hosts: str | None, listens_on: str, token_file: str | None) -> CallerRules:
    """Return the rules of these settings; `allowed_hosts` is a list of names with commas. Raises SettingsError."""
    names = [name.strip() for name in (allowed_hosts or "").split(",") if name.strip()]
    for name in names:
        if not _HOST.fullmatch(_plain(name)):
            raise SettingsError(f"allowed_hosts names {name!r}", "give names alone, without https:// and port")
    return CallerRules(names, None if token_file is None else read_token(Path(token_file)), listens_on)


def url_of(host: str, port: int) -> str:
    """Return the URL of a port; an IPv6 address stands in brackets there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bound(host: str, port: int, *, listens: bool = False) -> socket.socket:
    """Return a socket with this address; port 0 is any free port. If it `listens`, clients may connect at once.

    Raises OSError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of a socket that says TCP does asyncio send small answers at once; else each waits for 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        if listens:
            made.listen()
    except OSError:
        made.close()
        raise
    except (TypeError, UnicodeError) as error:  # a name with NUL or broken UTF-8
        made.close()
        raise OSError(errno.EINVAL, str(error)) from None
    return made


def read_token(path: Path) -> str:
    """Return the token in a file, without the space around it. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN_CHARS + 2).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise SettingsError(
            f"token_file names {path}: {why}", "name a readable file with a token in ASCII"
        ) from None
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_CHARS or not token.isprintable() or " " in token:
        raise SettingsError(
            f"token_file names {path}, which holds no token of {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} characters",
            "make a token with: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return token


def _given(authorization: str) -> bytes:
    """Return the token in a header; empty if the header has none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "replace")
    if scheme.lower() == "basic":
        try:
            return b64decode(value, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return b""


def _name(host: str) -> str:
    """Return the name or address in a `Host`, without the port."""
    if host.startswith("["):
        return _plain(host[1:].partition("]")[0])
    return _plain(host.partition(":")[0])


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
