"""The list of licences is whole, and the audit never says that it checked what it did not."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy import audit, lowest


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
    class RegistryAnswer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            results = [{"vulns": [{"id": "X-1"}]} if q["package"]["name"] == body else {} for q in asked["queries"]]
            self.wfile.write(json.dumps({"results": results} if body is not None else {}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(RegistryAnswer) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
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
        nothing = ["--index", "http://127.0.0.1:9/", "--licenses", str(tmp_path / "l.md")]
        assert audit.main(["--service", url, *nothing]) == code
    assert said in capsys.readouterr().out


@contextmanager
def index(newest: dict[str, tuple[str, list[dict[str, object]]]]) -> Iterator[str]:
    """A package index that knows the newest version of each of these packages, and its advisories."""

    class RegistryAnswer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").removesuffix("/json")
            self.send_response(200 if name in newest else 404)
            self.end_headers()
            version, known = newest.get(name, ("", []))
            self.wfile.write(json.dumps({"info": {"version": version}, "vulnerabilities": known}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(RegistryAnswer) as url:
        yield url.rstrip("/")


def test_without_the_database_the_index_is_asked_and_unknown_packages_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service("x") as away:
        pass
    pins = audit.pinned()
    known = {name: (version, []) for name, version in pins.items()}
    known["numpy"] = (pins["numpy"], [{"id": "X-2", "withdrawn": None}, {"id": "X-3", "withdrawn": "2020"}])
    arguments = ["--service", away, "--licenses", str(tmp_path / "l.md"), "--index"]
    with index(known) as url:
        assert audit.main([*arguments, url]) == 1
    said = capsys.readouterr().out
    assert "numpy" in said
    assert "X-2" in said
    assert "X-3" not in said
    assert "NOT CHECKED" not in said
    known["numpy"] = ("0.1", [])
    with index(known) as url:
        assert audit.main([*arguments, url]) == audit.NOT_CHECKED
    assert f"NOT CHECKED, 1 packages: numpy {pins['numpy']}" in capsys.readouterr().out


def test_a_database_that_cannot_be_reached_is_no_good_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service("x") as url:
        pass
    arguments = ["--service", url, "--index", url, "--licenses", str(tmp_path / "l.md")]
    assert audit.main(arguments) == audit.NOT_CHECKED
    assert "0 packages checked" in (said := capsys.readouterr().out)
    assert "NOT CHECKED" in said


SHIPPED = {"": [], "-feed": ["feed"]}


def lock(name: str) -> Path:
    return audit.ROOT / f"requirements{name}.txt"


@pytest.mark.parametrize("name", ["", "-feed", "-test"])
def test_every_package_of_a_lock_has_its_hashes(name: str) -> None:
    entries = re.split(r"\n(?=\w)", lock(name).read_text().partition("make locks\n")[2])
    assert len(entries) == len(audit.pinned(lock(name))) >= 20
    for entry in entries:
        first, *hashes = entry.strip().split("\\\n")
        assert re.fullmatch(r"[\w.-]+==\S+( ; .+)? ", first), first
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} ?", one) for one in hashes), first


@pytest.mark.parametrize("name", SHIPPED)
def test_locked_versions_are_the_versions_that_the_tests_run_with(name: str) -> None:
    tested = {audit.normal(package): version for package, version in audit.pinned().items()}
    shipped = {audit.normal(package): version for package, version in audit.pinned(lock(name)).items()}
    only_elsewhere = {"colorama"}  # on Windows
    assert {key: tested.get(key) for key in shipped.keys() - only_elsewhere} == {
        key: version for key, version in shipped.items() if key not in only_elsewhere
    }
    project = tomllib.loads((audit.ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in SHIPPED[name])]
    for requirement in (Requirement(line) for lines in lists for line in lines):
        assert requirement.specifier.contains(shipped[audit.normal(requirement.name)]), requirement


def test_the_bill_of_materials_is_that_of_the_images_lock() -> None:
    bill = json.loads((audit.ROOT / "deploy/sbom.cdx.json").read_text())
    listed = {one["name"]: one["version"] for one in bill["components"]}
    assert listed == audit.pinned(lock("-feed"))
    assert bill["metadata"]["component"]["name"] == "simstream"
    for one in bill["components"]:
        assert one["purl"] == f"pkg:pypi/{audit.normal(one['name'])}@{one['version']}"
        assert any(reference.get("hashes") for reference in one["externalReferences"])


def test_every_installed_package_has_a_hash() -> None:
    for file in ("Makefile", "deploy/Dockerfile"):
        text = (audit.ROOT / file).read_text()
        for line in re.findall(r"pip install[^\n&]*", text.replace("\\\n", " ")):
            # The project itself, the tool that makes the locks, and the lowest versions, which no lock has.
            alone = "--no-deps" in line or "uv==" in line or "build/lowest" in line
            assert "--require-hashes" in line or alone, line
        assert "-c requirements" not in text


def test_the_list_of_licences_tells_shipped_packages_from_packages_for_tests() -> None:
    titles = re.findall(r"^## (.+)$", audit.LICENSES.read_text(), re.MULTILINE)
    assert titles == ["To run", "With extras", "For tests, tools and pictures alone"]
    running, extras, tests = (
        set(re.findall(r"^\| ([\w.-]+) \|", part, re.MULTILINE)) - {"package"}
        for part in audit.LICENSES.read_text().split("\n## ")[1:]
    )
    assert {"numpy", "confluent-kafka"} <= running
    assert {"faust-streaming", "fastapi", "aiohttp", "pyspark", "scrapy"} <= extras
    assert {"pytest", "ruff", "selenium"} <= tests
    assert not (running & extras) | (running & tests) | (extras & tests)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("fastwarc", ["0.15", "0.16.0", "1.9", "2.1"]),
        ("resiliparse", ["0.16.0", "1.9", "2.1"]),
        ("msgspec", ["0.20.0"]),
    ],
)
def test_a_dependency_with_other_behaviour_in_other_versions_is_bounded(name: str, refused: list[str]) -> None:
    """fastwarc unpacks Brotli and resiliparse decides the ids of recipes; msgspec's errors are ValueErrors."""
    project = tomllib.loads((audit.ROOT / "pyproject.toml").read_text())["project"]
    [one] = [wanted for wanted in map(Requirement, project["dependencies"]) if wanted.name == name]
    assert [version for version in refused if version in one.specifier] == []
    assert metadata.version(name) in one.specifier
    [least] = [line for line in lowest.constraints(audit.ROOT / "pyproject.toml") if line.startswith(f"{name}==")]
    assert least.partition("==")[2] in one.specifier
