"""Reads a universal folder as PyTorch alone sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from fixtures.fingerprints import describe

FIXTURES = Path(__file__).parents[1] / "fixtures"


def truth_of(name: str) -> dict[str, Any]:
    """The state of the running engine."""
    return json.loads((FIXTURES / name / "truth.json").read_text())


def tag_folder(root: Path) -> Path:
    """The folder that `latest_universal` names."""
    return root / (root / "latest_universal").read_text()


def read_states(folder: Path) -> dict[str, dict[str, Any]]:
    """For each parameter, its state files as they are, the step included."""
    return {
        place.name: {file.stem: torch.load(file, weights_only=True) for file in sorted(place.glob("*.pt"))}
        for place in sorted((folder / "zero").iterdir())
        if place.is_dir()
    }


def tensor_of(value: Any) -> torch.Tensor:
    """The tensor of a state file: in a dict, or a bare vector, as DeepSpeed's converter makes of stage 3."""
    return value if torch.is_tensor(value) else value["param"]


def describe_states(states: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The same as the truth tells it: shapes and fingerprints."""
    tensors = {}
    for name, files in states.items():
        found = {key: tensor_of(value) for key, value in files.items() if key != "step"}
        shape = list(next(iter(found.values())).shape) if found else None
        tensors[name] = {"kind": "parameter", "shape": shape, "states": {k: describe(v) for k, v in found.items()}}
    return {"tensors": tensors}


def cutting_rules(states: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The entries that tell a loader how to cut each tensor, with its defaults filled in."""
    return {
        f"{name} {key}": (value.get("cat_dim", 0), value.get("param_n_sub_params", 1), value.get("vocab_tensor", False))
        for name, files in states.items()
        for key, value in files.items()
        if key != "step"
    }
