"""The operator's guide: the command line takes every command in it, and every file that it names is there."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from tests.e2e.harness import ROOT
from tests.unit.test_deploy import check_command

GUIDES = ("OPERATING.md",)


def commands(guide: str) -> list[str]:
    """The lines of code that call simstream, without their comments."""
    text = (ROOT / "deploy" / guide).read_text()
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(simstream [a-z][^`]*)`", text)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in [*lines, *inline] if line.startswith("simstream ")]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_the_guide_is_one(guide: str) -> None:
    found = commands(guide)
    assert len(found) > 15
    for line in found:
        try:
            check_command(shlex.split(line, comments=True)[1:])
        except click.UsageError as error:
            raise AssertionError(f"{line}: {error.format_message()}") from error


@pytest.mark.parametrize("guide", GUIDES)
def test_what_the_guide_links_to_is_there(guide: str) -> None:
    text = (ROOT / "deploy" / guide).read_text()
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    named = re.findall(r"`((?:deploy|tests|stream)/[\w/.-]+)`", text)
    assert links
    for link in links:
        assert (ROOT / "deploy" / link).exists(), link
    for path in named:
        assert (ROOT / path).exists(), path
