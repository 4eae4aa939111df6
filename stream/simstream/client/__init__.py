"""Sends pages to a running service and brings back their verdicts, for threads and for asyncio.

A program uses `sync` or `aio`; both are built on `traffic`.
"""

from simstream.client.aio import AsyncClient
from simstream.client.pages import RawPage
from simstream.client.sync import Client

__all__ = ["AsyncClient", "Client", "RawPage"]
