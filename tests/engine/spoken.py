"""The messages of `ucprun convert`, on refusals and on conversions."""

from __future__ import annotations

import subprocess
from pathlib import Path


def refused(ucprun: Path, source: Path, output: Path, *options: str | Path) -> str:
    """The program's message; it writes nothing."""
    command = [ucprun, "convert", source, output, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode in (1, 2, 3), result
    assert not output.exists()
    return result.stderr


def told(ucprun: Path, source: Path, output: Path, *options: str | Path) -> str:
    """The remarks of a conversion that succeeds."""
    command = [ucprun, "convert", source, output, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result
    return result.stderr
