"""Every link, anchor and path in the documents leads somewhere, and the site builds."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import simstream
from deploy import asyncapi, reference
from simstream.log import options
from simstream.model import GIVEN_REASONS
from simstream.settings import Settings
from simstream.tools.dedup.groups import DuplicateGroup
from simstream.tools.dedup.row_layouts import ExactPair, FinalRecord
from simstream.wire.page import PageFields

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for where in ("*.md", "docs/**/*.md", "deploy/**/*.md", "stream/*.md", "tests/*/*.md")
    for path in ROOT.glob(where)
    if path.name != "LICENSES.md"
)


def prose(path: Path) -> str:
    """A document without its blocks and spans of code."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as both a forge and the site make them."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_to_a_file_and_a_heading(document: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_the_reference_says_what_the_code_says() -> None:
    for name, text in reference.pages().items():
        assert (reference.FOLDER / name).read_text(encoding="utf-8") == text, (
            f"{name}: run python -m deploy.reference"
        )


def test_the_asyncapi_document_has_every_topic_and_refers_to_what_is_there() -> None:
    found = asyncapi.make_document()
    assert found["channels"].keys() == {*options.TOPICS, options.MATCHES}
    for target in re.findall(r'"\$ref": "([^"]+)"', json.dumps(found)):
        if target.startswith("./"):
            assert (reference.FOLDER / target).is_file()
        else:
            part: Any = found
            for name in target.removeprefix("#/").split("/"):
                part = part[name]


def test_every_setting_and_every_field_of_a_page_and_of_a_row_of_dedup_has_a_sentence() -> None:
    for kind in (Settings, PageFields, FinalRecord, ExactPair, DuplicateGroup):
        fields = {field.name for field in reference.fields(kind)}
        groups = {"frame", "extract", "dead_letters", "cluster_alert", "fields", "registry", "read"}
        assert fields - groups <= reference.sentences(kind).keys()


def test_the_reference_of_records_has_a_sentence_for_every_reason_of_a_verdict() -> None:
    text = (reference.FOLDER / "records.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| `(?:too_short|unreadable)` \| ", text, re.MULTILINE) == list(GIVEN_REASONS)


def test_some_code_that_reads_pages_gives_each_reason() -> None:
    sources = [*(ROOT / "stream/simstream/wire").rglob("*.py"), *(ROOT / "stream/simstream/text").rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    words = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert words.issuperset(GIVEN_REASONS)


def test_the_reference_of_python_has_every_public_name() -> None:
    text = (reference.FOLDER / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: simstream\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(set(simstream.__all__) - {"__version__"})


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for folder in ("stream", "deploy"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "<h1" in (tmp_path / "build/docs/index.html").read_text(encoding="utf-8")
    python = (tmp_path / "build/docs/reference/python/index.html").read_text(encoding="utf-8")
    assert "memory_bytes" in python
    assert "MEMORY_BYTES" not in python, "a default is shown by its value"
