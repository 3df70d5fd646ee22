"""The package says that it is typed (`py.typed`), so its types are checked as strictly as a user's checker may."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2]


def test_types() -> None:
    """By the settings of pyproject.toml. The cache of PyTorch's types is kept for the next time."""
    cache = SOURCE / "build" / "mypy-cache"
    checker = [sys.executable, "-m", "mypy", "--config-file", SOURCE / "pyproject.toml", "--cache-dir", cache]
    checked = subprocess.run(
        [*map(str, checker), "-p", "ucp_checkpoint"], cwd=SOURCE / "runtime" / "python", capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
