"""Where the scripts of this folder write: docs/paper.md, a part for each script, and the pictures beside it."""

from __future__ import annotations

import json
import platform
import re
import sys
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "paper.md"
PICTURES = ROOT / "docs" / "paper"
for folder in (ROOT / "tests", ROOT / "tests" / "engine"):
    sys.path.insert(0, str(folder))


def table(rows: list[list[str]]) -> str:
    """Markdown; the first row is the heading."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines) + "\n"


def wrapped(text: str) -> str:
    """A paragraph, or an entry of a list."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def today() -> str:
    """The date, as pages say it."""
    return datetime.now(UTC).date().isoformat()


def versions(names: Iterable[str]) -> str:
    """Of these packages, and of Python."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)])


def keep(name: str, data: dict[str, Any], picture: str) -> None:
    """The measurements of a figure, and its picture."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.json").write_text(json.dumps(data, ensure_ascii=False) + "\n")
    (PICTURES / f"{name}.svg").write_text(picture)


def kept(name: str) -> dict[str, Any] | None:
    """The measurements of an earlier run."""
    place = PICTURES / f"{name}.json"
    data: dict[str, Any] | None = json.loads(place.read_text()) if place.exists() else None
    return data


def write(script: str, text: str) -> None:
    """Replaces the script's part of the page."""
    begin, end = f"<!-- {script} -->\n", f"<!-- end of {script} -->\n"
    page = PAGE.read_text()
    if begin not in page or end not in page:
        sys.exit(f"{PAGE} has no part of {script}: it needs the lines `{begin.strip()}` and `{end.strip()}`")
    part = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    PAGE.write_text(part.sub(lambda _: begin + text + end, page))
