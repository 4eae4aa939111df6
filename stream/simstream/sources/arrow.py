"""Loads pyarrow, which only the extra `parquet` installs."""

from __future__ import annotations

from typing import Any

from simstream.errors import Unavailable


def load_pyarrow(doing: str) -> Any:
    """Return pyarrow with its parts for Parquet and Arrow files. Raises Unavailable: `doing` needs pyarrow."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(
            f"{doing} needs pyarrow, which is not installed", "run pip install 'simstream[parquet]'"
        ) from error
    return pyarrow
