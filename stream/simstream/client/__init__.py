"""Pages in, their verdicts back: a client of a running service, for threads and for asyncio.

`sync` and `aio` are what a program sees; `traffic` is what both stand on.
"""

from simstream.client.aio import AsyncClient
from simstream.client.pages import RawPage
from simstream.client.sync import Client

__all__ = ["AsyncClient", "Client", "RawPage"]
