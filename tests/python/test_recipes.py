"""The commands of docs/recipes.md are run, in a folder with the fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


def test_commands(fixtures: Path, tmp_path: Path) -> None:
    """Each prints what the page says; `python` is this interpreter."""
    (tmp_path / "fixtures").symlink_to(fixtures)
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        shown = ""
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            command = line.replace("python ", f"{sys.executable} ", 1)
            result = subprocess.run(command, shell=True, cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                                    stderr=subprocess.STDOUT, timeout=60, check=False)  # fmt: skip
            shown += f"$ {line}\n{result.stdout}"
        assert shown == block
