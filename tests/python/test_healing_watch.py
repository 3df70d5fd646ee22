"""`ucp.healing.watch()` without a job: the board that an agent reads, and refusals."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ucp_checkpoint as ucp
from ucp_checkpoint import _board

SOURCE = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
import ucp_checkpoint as ucp
with ucp.healing.watch() as watch:
    watch.beat(41)
    with watch.long("evaluation", 600):
        print("ready", flush=True)
        sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGUSR1)
    raise KeyError("no such layer")
"""


def test_an_agent_sees_steps_phases_and_exceptions(tmp_path: Path) -> None:
    """Of a process that is there, and after it has ended; SIGUSR1 has it write its stacks."""
    environment = os.environ | {_board.BOARD: str(tmp_path), "RANK": "3"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert _board.seen(tmp_path) == {3: _board.Seen(41, "evaluation", 600.0)}
    assert _board.errors(tmp_path) == {}
    _, errors = process.communicate("\n", timeout=60)
    assert process.returncode == 1
    assert _board.seen(tmp_path) == {3: _board.Seen(41, "", None)}
    assert _board.errors(tmp_path) == {3: {"exception": "KeyError", "text": "'no such layer'"}}
    assert "Current thread" in errors
    assert "KeyError: 'no such layer'" in errors


def test_files_that_are_not_a_board_count_for_nothing(tmp_path: Path) -> None:
    """A page that is too short, and an exception that is not JSON."""
    (tmp_path / "1").write_bytes(b"short")
    (tmp_path / "2.error").write_text("{")
    (tmp_path / "other").write_text("x")
    assert _board.seen(tmp_path) == {}
    assert _board.errors(tmp_path) == {}


def test_without_a_coordinator_nothing_happens(tmp_path: Path) -> None:
    """And nothing is written."""
    environment = {key: value for key, value in os.environ.items() if key != _board.BOARD}
    script = "import ucp_checkpoint as u\nw = u.healing.watch()\nw.beat(1)\nwith w.long('x'): pass\nprint('done')"
    result = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True,
                            text=True, timeout=60, check=False)  # fmt: skip
    assert (result.stdout, result.stderr) == ("done\n", "")
    assert list(tmp_path.iterdir()) == []


def test_refusals() -> None:
    """In one sentence."""
    watch = ucp.healing.Watch(None)
    with pytest.raises(ucp.Error, match="name is empty"), watch.long(""):
        pass
    with pytest.raises(ucp.Error, match="seconds is -1, and must be above 0"), watch.long("x", -1):
        pass


def test_torchrun_finds_the_backend() -> None:
    """The build's entry point is that of pyproject.toml."""
    (point,) = (point for point in importlib.metadata.entry_points(group="torchrun.handlers") if point.name == "ucp")
    assert callable(point.load()())
    line = f'[project.entry-points."torchrun.handlers"]\nucp = {json.dumps(point.value)}\n'
    assert line in (SOURCE / "pyproject.toml").read_text()
