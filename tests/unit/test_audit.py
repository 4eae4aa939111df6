"""The list of licences is whole, and the audit never says that it checked what it did not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deploy import audit


def listed() -> dict[str, str]:
    rows = [
        line.split("|") for line in audit.LICENSES.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    return {audit.normal(row[1].strip()): row[2].strip() for row in rows}


def test_every_installed_dependency_is_listed_with_the_licence_that_it_declares() -> None:
    names = audit.needed() | {audit.normal(name): name for name in audit.pinned() if audit.is_installed(name)}
    assert len(names) > 20
    missing = sorted(key for key in names if key not in listed())
    assert not missing, "make audit lists them"
    assert [key for key in names if listed()[key] == ""] == []
    assert "not declared" not in [listed()[key] for key in audit.needed()]


@contextmanager
def service(body: object) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            results = [{"vulns": [{"id": "X-1"}]} if q["package"]["name"] == body else {} for q in asked["queries"]]
            self.wfile.write(json.dumps({"results": results} if body is not None else {}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [("numpy", 1, "X-1"), ("nothing", 0, ", 0 known vulnerabilities"), (None, 3, "NOT CHECKED")],
)
def test_the_exit_code_says_whether_anything_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: object, code: int, said: str
) -> None:
    with service(body) as url:
        assert audit.main(["--service", url, "--licenses", str(tmp_path / "l.md")]) == code
    assert said in capsys.readouterr().out


def test_a_database_that_cannot_be_reached_is_no_good_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service("x") as url:
        pass
    assert audit.main(["--service", url, "--licenses", str(tmp_path / "l.md")]) == audit.NOT_CHECKED
    assert "NOT CHECKED" in capsys.readouterr().out
