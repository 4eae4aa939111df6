"""Pages in, their verdicts back: a client of a running service, for threads and for asyncio.

    with Client("kafka://127.0.0.1:9092") as client:
        verdict = client.submit({"url": "https://a.example/1", "html": "<p>…"}).result()

`sync` and `aio` are what a program sees; `traffic` is what both stand on.
"""

from simstream.client.aio import AsyncClient
from simstream.client.pages import RawPage
from simstream.client.sync import Client

__all__ = ["AsyncClient", "Client", "RawPage"]
