"""The error of a value that is no page in the format of its topic."""

from __future__ import annotations


class BadValueError(ValueError):
    """The value cannot be read. `reason` is the page's reason, the message its detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
