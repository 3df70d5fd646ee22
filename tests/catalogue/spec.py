"""The tensors that a spec declares for a model, by `ucpc explain --json`, and where they differ from the truth."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from truth import Shape, Truth

SPECS = Path(__file__).parents[2] / "specs"


@dataclass
class Said:
    """The tensors that a spec declares for a configuration."""

    shapes: dict[str, Shape]  # By the first name.
    buffers: set[str]
    optional: set[str]
    second_names: dict[str, str]  # From a tie's second name to its tensor's.
    totals: dict[str, int]


def explain(ucpc: Path, spec: Path, config: Path) -> Said:
    """Runs ucpc; a spec that does not bind fails the test with what ucpc said."""
    command = [str(ucpc), "explain", str(spec), "--config", str(config), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-4000:]}{result.stderr[-4000:]}"
    answer = json.loads(result.stdout)
    tensors = answer["tensors"]
    return Said(
        shapes={tensor["name"]: tuple(tensor["shape"]) for tensor in tensors},
        buffers={tensor["name"] for tensor in tensors if tensor["kind"] == "buffer"},
        optional={tensor["name"] for tensor in tensors if tensor["optional"]},
        second_names={alias: tensor["name"] for tensor in tensors for alias in tensor["aliases"]},
        totals=answer["totals"],
    )


def differences(said: Said, truth: Truth, *, other_names: set[str] = frozenset()) -> list[str]:
    """One line for each name, shape, buffer or tie that the two do not share.

    `other_names` are second names that a spec gives for the sake of other versions, and that this truth may lack.
    """
    found = []
    for name, shape in truth.shapes.items():
        tensor = said.second_names.get(name, name)
        if tensor not in said.shapes:
            found.append(f"{name}: the model has it, the spec does not")
        elif said.shapes[tensor] != shape:
            found.append(f"{name}: the model has {shape}, the spec says {said.shapes[tensor]}")
        elif (tensor in said.buffers) != (name in truth.buffers):
            found.append(f"{name}: a buffer in one of model and spec, a parameter in the other")
    for tensor in said.shapes.keys() - truth.shapes.keys() - said.optional:
        if not any(alias in truth.shapes for alias, first in said.second_names.items() if first == tensor):
            found.append(f"{tensor}: the spec has it, the model does not")
    if truth.ties is None:
        return sorted(found)
    tied = {frozenset(names) for names in truth.ties}
    said_tied = {
        frozenset({first} | {alias for alias, of in said.second_names.items() if of == first} - other_names)
        for first in said.second_names.values()
    }
    for names in tied ^ {names for names in said_tied if len(names) > 1}:
        found.append(f"{' and '.join(sorted(names))}: one tensor in one of model and spec, several in the other")
    return sorted(found)
