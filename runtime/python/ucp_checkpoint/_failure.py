"""Errors that this package finds by itself look like those of the extension module."""

from __future__ import annotations

from ucp_checkpoint._ucp import Error, OutOfMemory


def failure(code: str, message: str) -> Error:
    """To be raised."""
    error = OutOfMemory(message) if code == "memory" else Error(message)
    error.code = code
    return error


def printable(text: str, most: int = 200) -> str:
    """The first line of a text that came with a file, without characters that a terminal obeys."""
    line = (text.strip().splitlines() or [""])[0]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= most else line[: most - 1] + "…"
