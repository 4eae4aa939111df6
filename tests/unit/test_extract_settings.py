"""The settings of the processes that extract HTML reach these processes in every program that has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simstream.cli.main import main
from simstream.cli.serve import service
from simstream.log import open_log
from simstream.roles.context import RoleContext
from simstream.setting_groups import ExtractSettings
from simstream.settings import Settings
from simstream.text.extraction.pool import ExtractionPool

EXTRACT = ExtractSettings(1, 20.0, 96 << 20)


class _SeenError(Exception):
    """What the processes would get is known: the program need not go on."""


def serve(folder: Path, cache: Path) -> None:
    settings = Settings(cache=str(cache), recipe="google2007", extract=EXTRACT)
    with open_log(str(folder / "log")) as log, service(log, settings, RoleContext(settings), ("fingerprint",)):
        pass


def command(folder: Path, cache: Path, *arguments: str) -> None:
    pages, config = folder / "pages.jsonl", folder / "simstream.toml"
    pages.write_text('{"id":"a","text":"x"}\n')
    config.write_text(
        f"cache = '{cache}'\nrecipe = 'google2007'\n"
        f"[extract]\nworkers = 1\ntimeout_s = 20.0\nmemory_bytes = {96 << 20}\n"
    )
    main.main([*arguments, str(pages), "--config", str(config)], standalone_mode=False)


def fingerprint(folder: Path, cache: Path) -> None:
    command(folder, cache, "fingerprint")


def train_idf(folder: Path, cache: Path) -> None:
    command(folder, cache, "train-idf", "-o", str(folder / "idf.txt"))


@pytest.mark.parametrize("program", [serve, fingerprint, train_idf])
def test_time_and_memory_reach_the_processes_of_every_program(
    program: Callable[[Path, Path], None], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[float, int]] = []

    def seen(self: object, workers: int, timeout: float, memory_bytes: int = 0, *_: object) -> None:
        given.append((timeout, memory_bytes))
        raise _SeenError

    monkeypatch.setattr(ExtractionPool, "__init__", seen)
    with pytest.raises(_SeenError):
        program(tmp_path, cache)
    assert given == [(20.0, 96 << 20)]
