"""Loads pyarrow, which only the extra `parquet` installs."""

from __future__ import annotations

from typing import Any

from simstream.errors import needs


def load_pyarrow(doing: str) -> Any:
    """Return pyarrow with its parts for Parquet and Arrow files. Raises Unavailable: `doing` needs pyarrow."""
    with needs(doing, "parquet"):
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    return pyarrow
