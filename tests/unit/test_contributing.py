"""CONTRIBUTING.md names files, make targets and commands that exist; files that state one thing agree."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import yaml
from packaging.specifiers import SpecifierSet
from pre_commit.clientlib import load_config

from simstream.cli.main import COMMANDS
from simstream.version import __version__

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = set(re.findall(r"(?:stream|tests|deploy|\.ci)/[\w./]*\w", TEXT)) - {"stream/simstream/cli/NAME.py"}
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_make_target_and_command_that_it_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?\bmake ([a-z-]+)", TEXT))
    assert {"test", "lint", "locks"} <= targets
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []
    commands = set(re.findall(r"`simstream ([a-z-]+)", TEXT)) - {"--help", "--version"}
    assert "explain" in commands
    assert commands <= set(COMMANDS)


def test_the_example_of_one_test_finds_tests() -> None:
    [(file, word)] = re.findall(r"-m pytest (\S+) -k (\w+)", TEXT)
    assert re.search(rf"^def test_\w*{word}", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def made(*arguments: str) -> list[str]:
    """What make prints, without what the make around this test asked for."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    line = ["make", "--no-print-directory", *arguments]
    return subprocess.run(line, cwd=ROOT, env=clean, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_commit_is_checked_by_what_make_lint_runs() -> None:
    config = load_config(str(ROOT / ".pre-commit-config.yaml"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    lines = made("--dry-run", "--old-file=.venv/.test", "VENV=.venv", "lint")
    assert [hook["entry"] for hook in hooks] == lines
    assert [hook["pass_filenames"] for hook in hooks] == [False] * len(lines)


def test_help_lists_every_target_within_100_columns() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (help .*)$", makefile, re.MULTILINE)
    said = made("help")
    assert sorted(line.split()[0] for line in said) == sorted(phony.split())
    assert [line for line in said if len(line) > 100] == []


RELEASE = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")


def test_the_release_runs_targets_and_takes_files_that_are_there_and_only_fixed_actions() -> None:
    jobs = yaml.safe_load(RELEASE)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = [step["run"].split() for step in steps if step.get("run", "").startswith("make ")]
    assert [words[1] for words in called] == ["dist", "test"]
    assert {words[1] for words in called} <= set(targets)
    assert all((ROOT / path).is_file() for path in re.findall(r"(?:deploy|tests)/[\w./]+", RELEASE))
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert {name: job["permissions"].get("id-token") for name, job in jobs.items()} == {
        "build": "write",
        "pypi": "write",
        "image": "write",
        "github": None,
    }


def test_a_tag_of_another_version_is_not_released() -> None:
    steps = yaml.safe_load(RELEASE)["jobs"]["build"]["steps"]
    [version] = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    [check] = [step["run"] for step in steps if step.get("name") == "The tag is the version"]
    for tag, code in ((f"v{version}", 0), (f"v{version}1", 1), ("v", 1)):
        done = subprocess.run(["bash", "-ec", check], cwd=ROOT, env={**os.environ, "GITHUB_REF_NAME": tag})
        assert done.returncode == code, tag


def test_every_file_that_states_the_version_states_the_same() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {citation["version"], project["version"]} == {__version__}


def test_makefile_and_classifiers_name_the_versions_of_python_that_installers_accept() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    accepted = SpecifierSet(project["requires-python"])
    versions = [f"3.{minor}" for minor in range(40) if f"3.{minor}" in accepted]
    assert re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"])) == versions
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    first, last = (version.replace(".", ", ") for version in (versions[0], versions[-1]))
    assert f"({first}) <= v <= ({last})" in makefile
    assert f"Python {versions[0]} to {versions[-1]}" in TEXT
