"""ARCHITECTURE.md is short and names every folder; it and the design pages name modules that exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "stream" / "simstream"
ARCHITECTURE = ROOT / "stream" / "ARCHITECTURE.md"
PAGES = [ARCHITECTURE, *sorted((ROOT / "docs" / "design").glob("*.md"))]
OF_A_STATE = {"damaged/"}
"""Folders that a service makes."""


def test_the_page_of_the_architecture_stays_short() -> None:
    assert len(ARCHITECTURE.read_text(encoding="utf-8").splitlines()) <= 200


def test_no_two_public_classes_have_one_name() -> None:
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    names = Counter(name for source in sources for name in re.findall(r"^class ([A-Z]\w*)", source, re.M))
    assert [name for name, times in names.items() if times > 1] == []


def test_the_page_of_the_architecture_links_to_every_folder_of_the_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    linked = set(re.findall(r"\]\((simstream/[\w/]+)/\)", ARCHITECTURE.read_text(encoding="utf-8")))
    expected = {folder.relative_to(PACKAGE.parent).as_posix() for folder in folders if folder != PACKAGE}
    assert linked == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_design_page_names_is_there(page: Path) -> None:
    spans = re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    )
    named = {span for span in spans if re.fullmatch(r"\w+(/[\w.]+)*/[\w.]*", span)}
    missing = [
        name
        for name in named - OF_A_STATE
        if not any((base / end).exists() for base in (PACKAGE, ROOT) for end in (name, name + ".py"))
    ]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_class_that_a_design_page_names_is_there(page: Path) -> None:
    spans = re.findall(r"`([A-Z][a-z]+[A-Z]\w+)[.\w]*`", page.read_text(encoding="utf-8"))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert [name for name in spans if not re.search(rf"^(class )?{name}\b", sources, re.M)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_program_that_a_design_page_names_is_there(page: Path) -> None:
    for name in re.findall(r"python -m (tests[\w.]+)", page.read_text(encoding="utf-8")):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists()


def test_the_page_of_numbers_has_every_integer_type_of_the_judge() -> None:
    types = re.findall(r"= NewType\(\"(\w+)\"", (PACKAGE / "judge" / "numbers.py").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "design" / "numbers.md").read_text(encoding="utf-8")
    assert len(types) > 5
    assert [name for name in types if f"`{name}`" not in page] == []
