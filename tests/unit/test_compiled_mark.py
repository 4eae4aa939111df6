"""Whether kernels have to be compiled is known for each place where they lie."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from simstream.text import fingerprinter


def test_a_second_installation_with_the_same_cache_folder_has_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed_in(place: str) -> None:
        kernel = SimpleNamespace(stats=SimpleNamespace(cache_path=place))
        monkeypatch.setattr(fingerprinter, "fingerprint_batch", kernel)

    installed_in("/one")
    fingerprinter._mark_compiled(tmp_path)
    assert fingerprinter.compiled(tmp_path)
    installed_in("/another")
    assert not fingerprinter.compiled(tmp_path)
