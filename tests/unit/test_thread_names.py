"""Threads of our own name no attribute as `threading.Thread` names its own, in any Python that we support."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_THREAD = {
    "_args", "_context", "_daemonic", "_handle", "_ident", "_initialized", "_invoke_excepthook", "_is_stopped",
    "_kwargs", "_name", "_native_id", "_os_thread_handle", "_started", "_stderr", "_target", "_tstate_lock",
    "_bootstrap", "_bootstrap_inner", "_delete", "_reset_internal_locks", "_set_ident", "_stop", "_after_fork",
    "_set_native_id", "_set_os_name", "_set_tstate_lock", "_wait_for_tstate_lock",
}  # fmt: skip
"""What Python 3.11 to 3.14 use: 3.14 has brought `_context`."""


def threads() -> Iterator[tuple[str, set[str]]]:
    """Each class that is a thread, with the names that it gives to attributes and methods."""
    for folder in ("stream", "deploy", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            if "Thread)" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef) and any(ast.unparse(b).endswith("Thread") for b in node.bases):
                    yield f"{path.stem}.{node.name}", set(named(node))


def named(node: ast.ClassDef) -> Iterator[str]:
    """The names of methods, and of what is assigned on `self`."""
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            yield part.name
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield part.attr


@pytest.mark.parametrize(("name", "names"), [pytest.param(*one, id=one[0]) for one in threads()])
def test_a_thread_hides_nothing_that_a_thread_needs(name: str, names: set[str]) -> None:
    assert "run" in names, name
    assert not names & OF_THREAD
