"""A base64 text that is not there: its bytes were cut out of the body before it was decoded."""

from __future__ import annotations

from typing import Self


class CutText(str):
    """Stands in a decoded body for the text; readers learn of its bytes what they would have read from it.

    As a string it is only the mark in the skeleton. What is hashed must not depend on that.
    """

    __slots__ = ("bytes_total", "sha256")
    sha256: str
    bytes_total: int

    def __new__(cls, mark: str, *, sha256: str, bytes_total: int) -> Self:
        self = super().__new__(cls, mark)
        self.sha256, self.bytes_total = sha256, bytes_total
        return self


class TextNeeded(Exception):
    """An identity depends on the text itself, not only on its bytes: the body must be read as a whole."""
