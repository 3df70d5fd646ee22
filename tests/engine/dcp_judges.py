"""Judges of folders of Distributed Checkpoint: what PyTorch reads of them, and how jobs go on that loaded them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from fixtures.fingerprints import describe, differences

# Sums in another order than those of the ranks that saved.
NOISE = 5e-6
PREFIX = {"titan": "", "app": "app.model.", "plain": "model.", "accelerate": "model."}
OPTIMIZER = {"titan": "optimizer.", "app": "app.optim.", "plain": "optimizer.", "accelerate": "optimizer."}
SETTINGS = ("lr", "eps", "weight_decay", "momentum", "amsgrad", "betas", "params")


def read_flat(folder: Path) -> dict[str, Any]:
    """All entries by their keys, as PyTorch itself joins their chunks."""
    found: dict[str, Any] = {}
    parts = [path.parent for path in sorted(folder.rglob(".metadata"))]
    assert parts
    for part in parts:
        state: dict[str, Any] = {}
        reader = dcp.FileSystemReader(part)
        metadata = reader.read_metadata()
        for key, entry in metadata.state_dict_metadata.items():
            is_tensor = hasattr(entry, "size")
            state[key] = torch.full(entry.size, 77, dtype=entry.properties.dtype) if is_tensor else None
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        _load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
        assert not found.keys() & state.keys()
        found |= state
    return found


def expect_truth(entries: dict[str, Any], truth: dict[str, Any], style: str) -> None:
    """Weights, states and steps."""
    wanted: dict[str, str] = {}
    for tensor, entry in truth["tensors"].items():
        for state, fingerprint in entry["states"].items():
            name = PREFIX[style] + tensor
            if state not in ("fp32", "weight"):
                name = f"{OPTIMIZER[style]}state.{tensor}.{state}"
            wanted[name] = fingerprint
    for name, fingerprint in wanted.items():
        assert name in entries
        assert describe(entries[name]) == fingerprint, name
    step = truth["step_counter"]["value"]
    for tensor, entry in truth["tensors"].items():
        key = f"{OPTIMIZER[style]}state.{tensor}.step"
        has_states = entry["states"].keys() > {"exp_avg"} or "sum" in entry["states"]  # Momentum alone counts no steps.
        assert (key in entries) == (has_states and step is not None), key
        if key in entries:
            assert entries[key].dtype == torch.float32
            assert entries[key].shape == ()
            assert entries[key].item() == step


def settings_of(groups: list[dict[str, Any]]) -> list[str]:
    """The settings of each group, with its parameters. Groups that differ in parameters alone may be in another order,
    and values from JSON have no tuples."""
    return sorted(
        str([list(group[key]) if isinstance(group[key], tuple) else group[key] for key in SETTINGS if key in group])
        for group in groups
    )


def expect_continuation(answer: dict[str, Any], truth: dict[str, Any]) -> None:
    """The job holds the same bits over its mesh, its groups have the same settings, and its losses are those of the run
    that was not interrupted."""
    assert "error" not in answer
    assert differences(truth, answer, ["parameter"]) == []
    assert answer["step_counter"]["value"] == truth["step_counter"]["value"]
    assert settings_of(answer["groups"]) == settings_of(truth["groups"])
    assert answer["losses"] == pytest.approx(truth["losses"][truth["step"] :], abs=NOISE)
