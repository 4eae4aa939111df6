"""The list of licences is whole, and so are the lock files."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy import lowest
from deploy.licenses import LICENSES, ROOT, is_installed, needed, normal, pinned

PYPROJECT = ROOT / "pyproject.toml"


def listed() -> dict[str, str]:
    rows = [line.split("|") for line in LICENSES.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {normal(row[1].strip()): row[2].strip() for row in rows}


def test_every_installed_dependency_is_listed_with_the_licence_that_it_declares() -> None:
    names = needed() | {normal(name): name for name in pinned() if is_installed(name)}
    assert len(names) > 20
    missing = sorted(key for key in names if key not in listed())
    assert not missing, "make audit lists them"
    assert [key for key in names if listed()[key] == ""] == []
    assert "not declared" not in [listed()[key] for key in needed()]


SHIPPED = {"": [], "-image": ["feed", "query"], "-msk": ["msk"], "-registry": ["registry"], "-tracing": ["tracing"]}


def lock(name: str) -> Path:
    return ROOT / f"requirements{name}.txt"


@pytest.mark.parametrize("name", [*SHIPPED, "-test"])
def test_every_package_of_a_lock_has_its_hashes(name: str) -> None:
    entries = re.split(r"\n(?=\w)", lock(name).read_text().partition("make locks\n")[2])
    assert len(entries) == len(pinned(lock(name))) >= 15
    for entry in entries:
        first, *hashes = entry.strip().split("\\\n")
        assert re.fullmatch(r"[\w.-]+==\S+( ; .+)? ", first), first
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} ?", one) for one in hashes), first


@pytest.mark.parametrize("name", [*SHIPPED, "-test"])
def test_what_a_later_python_has_itself_is_marked_in_every_lock(name: str) -> None:
    assert re.search(r"^backports-zstd==\S+ ; python_full_version < '3\.14' ", lock(name).read_text(), re.MULTILINE)
    assert "pip compile --universal " in (ROOT / "Makefile").read_text(), "without it, uv drops markers"


@pytest.mark.parametrize("name", SHIPPED)
def test_locked_versions_are_the_versions_that_the_tests_run_with(name: str) -> None:
    tested = {normal(package): version for package, version in pinned().items()}
    shipped = {normal(package): version for package, version in pinned(lock(name)).items()}
    only_elsewhere = {"colorama", "httpx2-jsfetch"}  # on Windows, in a browser
    assert {key: tested.get(key) for key in shipped.keys() - only_elsewhere} == {
        key: version for key, version in shipped.items() if key not in only_elsewhere
    }
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in SHIPPED[name])]
    for requirement in (Requirement(line) for lines in lists for line in lines):
        assert requirement.specifier.contains(shipped[normal(requirement.name)]), requirement


def imported() -> set[str]:
    """The packages that tests and `deploy` import, but for the standard library and this checkout."""
    line = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
    paths = (path for folder in ("tests", "deploy") for path in (ROOT / folder).rglob("*.py"))
    found = {one or other for path in paths for one, other in line.findall(path.read_text("utf-8"))}
    return found - sys.stdlib_module_names - {"tests", "deploy", "simstream"}


def test_what_an_image_gets_beside_its_own_lock_changes_no_version_of_it() -> None:
    image = pinned(lock("-image"))
    for extra in ("-msk", "-registry", "-tracing"):
        more = pinned(lock(extra))
        assert {name: more[name] for name in more.keys() & image.keys()}.items() <= image.items()
        assert set(pinned(lock(""))) <= set(more)
        assert f"requirements{extra}.txt" in (ROOT / "deploy/Dockerfile").read_text()


def test_every_package_that_tests_import_is_declared() -> None:
    peers = {"rjieba", "trafilatura", "datatrove"}  # benches and studies compare with them where they are installed
    whole = tomllib.loads(PYPROJECT.read_text())
    extras = whole["project"]["optional-dependencies"].values()
    lists = [whole["project"]["dependencies"], *extras, whole["dependency-groups"]["test"]]
    declared = {normal(Requirement(line).name) for lines in lists for line in lines}
    packages, versions = metadata.packages_distributions(), pinned()
    undeclared = {name for name in imported() - peers if not {normal(one) for one in packages[name]} & declared}
    assert undeclared == set(), "name them in the group `test` of pyproject.toml"
    for requirement in map(Requirement, whole["dependency-groups"]["test"]):
        assert versions[requirement.name] in requirement.specifier, requirement


def test_the_bill_of_materials_is_that_of_the_images_lock() -> None:
    bill = json.loads((ROOT / "deploy/sbom.cdx.json").read_text())
    listed = {one["name"]: one["version"] for one in bill["components"]}
    assert listed == pinned(lock("-image"))
    assert bill["metadata"]["component"]["name"] == "simstream"
    for one in bill["components"]:
        assert one["purl"] == f"pkg:pypi/{normal(one['name'])}@{one['version']}"
        assert any(reference.get("hashes") for reference in one["externalReferences"])


def test_every_installed_package_has_a_hash() -> None:
    for file in ("Makefile", "deploy/Dockerfile"):
        text = (ROOT / file).read_text()
        for line in re.findall(r"[^\n&]*pip install[^\n&]*", text.replace("\\\n", " ")):
            # The project itself, the tools for locks and audits, and the lowest versions, which no lock has.
            alone = "--no-deps" in line or "build/tools/" in line or "build/lowest" in line
            assert "--require-hashes" in line or alone, line
        assert "-c requirements" not in text


def test_the_list_of_licences_tells_shipped_packages_from_packages_for_tests() -> None:
    titles = re.findall(r"^## (.+)$", LICENSES.read_text(), re.MULTILINE)
    assert titles == ["To run", "With extras", "For tests, tools and pictures alone"]
    running, extras, tests = (
        set(re.findall(r"^\| ([\w.-]+) \|", part, re.MULTILINE)) - {"package"}
        for part in LICENSES.read_text().split("\n## ")[1:]
    )
    assert {"numpy", "confluent-kafka"} <= running
    assert {"fastapi", "aiohttp", "pyspark", "scrapy"} <= extras
    assert {"pytest", "ruff", "selenium"} <= tests
    assert not (running & extras) | (running & tests) | (extras & tests)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("fastwarc", ["0.15", "0.16.0", "1.9", "2.1"]),
        ("resiliparse", ["0.16.0", "1.9", "2.1"]),
        ("msgspec", ["0.20.0"]),
        ("click", ["8.1.8"]),
        ("confluent-kafka", ["2.6.0", "2.9.0"]),
        ("scrapy", ["2.12.0"]),
    ],
)
def test_a_dependency_with_other_behaviour_in_other_versions_is_bounded(name: str, refused: list[str]) -> None:
    """fastwarc unpacks Brotli and resiliparse decides the ids of recipes; msgspec's errors are ValueErrors. Earlier
    versions of click and confluent-kafka lack names that each error or start looks up; earlier Scrapys call no
    `start`."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *extras.values()]
    bounds = [wanted.specifier for wanted in map(Requirement, chain(*lists)) if wanted.name == name]
    assert [version for version in refused if any(version in bound for bound in bounds)] == []
    assert all(metadata.version(name) in bound for bound in bounds)
    [least] = [line for line in lowest.constraints(PYPROJECT, list(extras)) if line.startswith(f"{name}==")]
    assert all(least.partition("==")[2] in bound for bound in bounds)


def test_the_lowest_versions_are_those_of_the_extras_that_are_asked_for_and_one_for_each_name() -> None:
    def bounds(*extras: str) -> dict[str, str]:
        lines = lowest.constraints(PYPROJECT, extras)
        found = dict(line.split("==") for line in lines)
        assert len(found) == len(lines), "pip installs nothing with two constraints for one name"
        return found

    assert bounds()["confluent-kafka"] == "2.10"
    assert bounds("registry")["confluent-kafka"] == "2.16"
    assert bounds("feed", "rss")["aiohttp"] == bounds("rss", "feed")["aiohttp"] == "3.12"


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="a developer may leave packages out")
def test_no_test_is_skipped_in_ci_for_want_of_a_package() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"pytest\.importorskip\(\"([\w.]+)\"", text)}
    assert {"pyarrow", "pyspark", "opentelemetry.sdk.trace"} <= names
    for name in sorted(names):
        importlib.import_module(name)
