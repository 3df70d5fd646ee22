"""Errors that this package finds by itself look like those of the extension module."""

from __future__ import annotations

from ucp_checkpoint._ucp import Error, OutOfMemory


def failure(code: str, message: str) -> Error:
    """To be raised."""
    error = OutOfMemory(message) if code == "memory" else Error(message)
    error.code = code
    return error
