"""The study of other languages reads translated versions from a repository, and counts their pairs by J."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from simstream.settings import default_cache
from tests.studies import languages, sites
from tests.studies.context import StudyContext
from tests.unit.test_study_sites import OTHER, site

WORDS = (
    ("мельница", "река", "мост", "лодка", "берег", "хлеб", "старый", "город"),
    ("утро", "снег", "окно", "лампа", "письмо", "сад", "дорога", "чай"),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two translated pages, one of them in two versions, and a page that nobody has translated yet."""
    first, second, english = text(0), text(1), "An old mill by the river opened its doors again. " * 20
    (tmp_path / "content").mkdir()
    git(tmp_path, "init", "-q")
    for number, pages in enumerate(
        ({"mill": first, "snow": second, "todo": english}, {"mill": first.replace("мост", "паром", 2)})
    ):
        for name, page in pages.items():
            made = f"---\ntitle: T\n---\n\n# {page}\n\n```js\nconst code = {number};\n```\n[link](https://a.example/{number})\n"
            (tmp_path / "content" / f"{name}.md").write_text(made, encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", f"version {number}")
    return tmp_path


pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="the study reads git repositories")


def text(seed: int) -> str:
    random = Random(seed)
    return "\n\n".join(" ".join(random.choices(WORDS[seed], k=30)).capitalize() + "." for _ in range(8))


def git(folder: Path, *command: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "commit.gpgsign=false")
    subprocess.run(("git", "-C", str(folder), *settings, *command), check=True)


def test_versions_are_read_without_code_and_addresses_and_only_where_they_are_translated(repository: Path) -> None:
    found = languages.versions(repository, "ru")
    assert [page.id for page in found] == ["content/mill.md@0", "content/mill.md@1", "content/snow.md@0"]
    assert found[0].text == text(0).replace("\n\n", "\n") + "\nlink"
    assert languages.versions(repository, "ko") == []
    assert not any("code" in page.text or "example" in page.text for page in found)


def test_near_versions_match_and_other_pages_do_not(repository: Path) -> None:
    pages = languages.versions(repository, "ru")
    result = languages.run(
        StudyContext("default", default_cache(), 40), pages, [sites.template_of(site("乙报", OTHER))]
    )
    assert (result["pages"], result["versions"]) == (2, 3)
    whole = result["whole"][1]
    assert sum(part["count"] for part in whole["recall"].values()) == 1  # the pair of versions matches
    assert whole["false"]["count"] == 0
    assert whole["false"]["n"] > 0
    assert result["forms"]["nfc"]["count"] == result["forms"]["nfc"]["n"] == 2
    assert result["extraction"]["count"] == result["extraction"]["n"] == 2
    by_title = {table.title.split(":")[0]: table for table in languages.tables({"ru": result})}
    assert by_title["Whole pages"].rows[0][0] == "ru (2 pages, 3 versions)"
