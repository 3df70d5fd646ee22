"""Checkpoints that the real DeepSpeed wrote, converted by us and by it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.cases import Case
from fixtures.jobs import Job
from fixtures.serve import Conversion, Engines
from universal import describe_states, read_states, tag_folder

SPECS = Path(__file__).parents[2] / "specs"


@dataclass(frozen=True)
class Saved:
    """A checkpoint, and what its engine held."""

    folder: Path
    truth: dict[str, Any]


def train(engines: Engines, case: Case, folder: Path) -> Saved:
    """Three steps and a checkpoint."""
    answer = engines.ask(Job(case, steps=3, save=folder))
    return Saved(folder, answer["saved"])


def convert(programs: Path, saved: Saved, spec: str, output: Path) -> dict[str, dict[str, Any]]:
    """By `ucprun convert`."""
    command = [str(programs / "ucprun"), "convert", str(saved.folder), str(output), "--to", "universal"]
    command += ["--spec", str(SPECS / f"{spec}.ucp")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return read_states(tag_folder(output))


def convert_with_deepspeed(engines: Engines, saved: Saved, output: Path) -> dict[str, dict[str, Any]]:
    """By `ds_to_universal`."""
    tag = (saved.folder / "latest").read_text()
    engines.ask(Conversion(saved.folder / tag, output / f"{tag}_universal", inject=False))
    return read_states(output / f"{tag}_universal")


def values(states: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Fingerprints of all tensors."""
    return describe_states(states)
