"""Sends a request to a process of simstream over HTTP."""

from __future__ import annotations

import urllib.request
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit


def open_url(request: urllib.request.Request, timeout_s: float) -> Any:
    """Return the open answer, as `urllib.request.urlopen` does.

    For an address of this machine, asks no proxy of the environment: that proxy is another machine.
    """
    handlers = [urllib.request.ProxyHandler({})] if _is_own(urlsplit(request.full_url).hostname or "") else []
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)


def reason_of(error: Exception) -> str:
    """Return in words why a request failed."""
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__


def _is_own(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
