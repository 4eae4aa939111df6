"""What a test does without a program that it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(advice: str) -> NoReturn:
    """Skip the test; in CI, fail. `advice` says what to install."""
    if os.environ.get("CI") == "true":
        pytest.fail(advice)
    pytest.skip(advice)
