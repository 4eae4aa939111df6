"""Writes jieba's tables in the form that the package ships.

python -m deploy.jieba_tables     # from the installed jieba 0.42.1, which the tests need
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from simstream.files.zstandard import zstd
from simstream.text.jieba_tables import BETWEEN, FILES, path

VERSION = "0.42.1"
_LEVEL = 22


def columns_first(content: bytes, number: int) -> bytes:
    """Return a table's columns one after the other: the values of a column are more alike than those of a line."""
    text = content.decode()
    rows = [line.split(" ", number - 1) for line in text.removesuffix("\n").split("\n")]
    ordered = BETWEEN.join("\n".join(column) for column in zip(*rows, strict=True))
    return (ordered + "\n" * text.endswith("\n")).encode()


def main() -> None:
    """Write all tables."""
    jieba = importlib.metadata.distribution("jieba")
    if jieba.version != VERSION:
        raise SystemExit(f"jieba {jieba.version} is installed: run `pip install jieba=={VERSION}`")
    for name, number in FILES.items():
        content = Path(str(jieba.locate_file(f"jieba/{name}"))).read_bytes()
        path(name).write_bytes(zstd.compress(columns_first(content, number), level=_LEVEL))


if __name__ == "__main__":
    main()
