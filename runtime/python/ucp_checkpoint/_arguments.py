"""Checks the arguments of this package: one of another type is refused in a sentence that names it."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping

from ucp_checkpoint._failure import failure


def text(name: str, value: object, what: str = "a text") -> str:
    """A string that can be written down: a lone half of a pair of code units cannot."""
    if not isinstance(value, str):
        raise failure("usage", f"{name} is {what}, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise failure("usage", f"{name} has characters that are not text: {shown(value)}") from None
    return value


def path(name: str, value: object) -> bytes:
    """As the system has it, whatever characters that are."""
    try:
        encoded = os.fsencode(value)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise failure("usage", f"{name} is a path, not {shown(value)}") from None
    if not encoded or b"\0" in encoded:
        raise failure("usage", f"{name} is a path, not {shown(value)}")
    return encoded


def texts(name: str, value: object, what: str = "a text or several") -> list[str]:
    """One text, or any number of them."""
    if isinstance(value, str):
        return [text(name, value)]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise failure("usage", f"{name} is {what}, not {shown(value)}")
    return [text(f"an entry of {name}", entry) for entry in value]


def mapping(name: str, value: object) -> Mapping[str, object]:
    """Returns `value` as a mapping from names, or refuses it."""
    if not isinstance(value, Mapping):
        raise failure("usage", f'{name} is a mapping, {{"NAME": …}}, not {shown(value)}')
    for key in value:
        text(f"a name in {name}", key)
    return value


def whole(name: str, value: object, least: int, most: int, what: str = "") -> int:
    """A number of any kind that counts, but for truth values."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise failure("usage", f"{name} is {what or f'a number from {least} to {most}'}, not {shown(value)}")
    return number


def flag(name: str, value: object) -> bool:
    """True or False: that texts such as "no" count as true is a trap."""
    if value is not True and value is not False:
        raise failure("usage", f"{name} is True or False, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """As Python writes it, and not endlessly."""
    try:
        written = ascii(value)
    except Exception:  # Of an object that cannot even be shown.
        written = f"a {type(value).__name__}"
    return written if len(written) <= 80 else f"{written[:77]}..."
