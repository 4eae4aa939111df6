"""What strangers may ask of the API: any bytes, to any of its paths, under any headers."""

from __future__ import annotations

import gzip
import http.client
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from hypothesis import strategies as st

from simstream.errors import VerdictLate
from simstream.queries.app import make_app
from simstream.queries.server import QueryServer
from simstream.settings import default_cache
from simstream.telemetry.metrics import Metrics
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS

PATIENCE_S = 20.0
ANSWERED = {200, 307, 400, 403, 404, 405, 411, 413, 415, 421, 422, 431, 501, 503, 504}
"""Never 500, which would be an unforeseen error."""
BODIES = (
    b'{"texts":["a few words","\\ud800\\u0000"],"limit":3,"pages":[{"html":"<p>x"},{"text":"words"}]}',
    b'{"fingerprints":[{"fingerprint":"9c41f07ab2e35d68","sketch":["9c41f07ab2e35d68"]}],"limit":1}',
    b'{"texts":["' + "南京市长江大桥".encode() + b'"],"mode":"weights"}',
    b'{"id":"a","url":"http://a.example/","text":"some words","time":1700000000000}',
)
PATHS = ("/match", "/match/fingerprints", "/tokens", "/judge", "/judge?timeout=1e400", "/page", "/ready", "/docs")
HEADERS = (
    {"Content-Type": "application/json"},
    {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Type": "text/plain"},
    {"Content-Type": "multipart/form-data; boundary=x"},
    {},
)


class FuzzQuestion(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


def questions(bodies: st.SearchStrategy[bytes]) -> st.SearchStrategy[FuzzQuestion]:
    """Requests with these bodies, packed or plain."""
    names = st.text(max_size=30).map(lambda name: f"/page?id={quote(name, errors='replace')}")
    numbers = st.sampled_from(["-1", "0", "9223372036854775808", "9" * 5000]).map(
        lambda number: f"/cluster/{number}?limit={number}"
    )
    packed = bodies | bodies.map(lambda body: gzip.compress(body, mtime=0))
    paths = st.sampled_from(PATHS) | names | numbers
    return st.builds(
        FuzzQuestion, st.sampled_from(["POST", "POST", "GET", "PUT"]), paths, packed, st.sampled_from(HEADERS)
    )


def run_question(question: FuzzQuestion) -> None:
    """Ask, and ask once more whether it is still there."""
    for asked in (question, FuzzQuestion("GET", "/ready", b"", {})):
        connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=PATIENCE_S)
        try:
            connection.request(asked.method, asked.path, asked.body, asked.headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except (BrokenPipeError, ConnectionResetError):
            continue  # it need not read a refused request to its end
        finally:
            connection.close()
        assert status in ANSWERED, (asked, status, body)
    assert status == 200


@cache
def server() -> QueryServer:
    """The API over a state without a page."""

    async def close() -> None: ...

    async def late(*_: object) -> None:
        raise VerdictLate("no verdict came", "ask again")

    def match(pages: list[Any], limit: int) -> list[Any]:
        return [SimpleNamespace(matches=[], reason=page.reason) for page in pages]

    def nothing(*_: object) -> None:
        return None

    policy = SimpleNamespace(id="p", sketch_bits=64)
    role = SimpleNamespace(
        live_pages=0, policy=policy, near=lambda *_: [], match=match, page=nothing, verdict=nothing, cluster=nothing
    )
    judge = SimpleNamespace(close=close, judge=late)
    health = SimpleNamespace(ready=lambda *_: (True, ""))
    fingerprinter = Fingerprinter(PRESETS["default"], default_cache(), workers=0)
    app = make_app(cast(Any, role), fingerprinter, cast(Any, judge), cast(Any, health), Metrics())
    return QueryServer("127.0.0.1", 0, app)
