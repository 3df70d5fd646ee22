"""Forms that DeepSpeed's files can have, and no fixture has: a fixture is rewritten, and the truth stays."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Run
from fixtures.fingerprints import differences
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

Change = Callable[[dict[str, Any]], None]


def aliased(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors as views of one storage, with a gap before each."""
    whole = torch.full((sum(tensor.numel() + 3 for tensor in tensors),), float("nan"), dtype=tensors[0].dtype)
    views, at = [], 0
    for tensor in tensors:
        view = whole[at + 3 : at + 3 + tensor.numel()]
        view.copy_(tensor.detach())
        views.append(view)
        at += 3 + tensor.numel()
    return views


def one_storage_for_all_sub_groups(file: dict[str, Any]) -> None:
    """As stage 3 has it where the model itself is float32: sub-groups are places in one buffer."""
    state = file["optimizer_state_dict"]
    state["fp32_flat_groups"] = aliased(state["fp32_flat_groups"])


def block_scales(file: dict[str, Any]) -> None:
    """As 8-bit optimizers have it: one number for a block of elements."""
    for state in file["optimizer_state_dict"]["base_optimizer_state"]["state"].values():
        state["absmax1"] = torch.ones(3)


FORMS: list[tuple[str, str, Change, list[str]]] = [
    ("zero3_dp4", "*_optim_states.pt", one_storage_for_all_sub_groups, []),
    ("zero1_dp4", "*_optim_states.pt", block_scales, ["--drop-state", "absmax1"]),
]


def rewrite(name: str, files: str, change: Change, source: Path) -> None:
    """A copy of a fixture with these files changed."""
    shutil.copytree(FIXTURES / name / "checkpoint", source)
    rewritten = sorted(source.glob(f"*/{files}"))
    assert rewritten
    for path in rewritten:
        content = torch.load(path, weights_only=False)
        change(content)
        torch.save(content, path)


@pytest.mark.parametrize(("name", "files", "change", "options"), FORMS, ids=[form[2].__name__ for form in FORMS])
def test_the_same_truth_in_another_form(
    name: str, files: str, change: Change, options: list[str], run: Run, tmp_path: Path
) -> None:
    rewrite(name, files, change, tmp_path / "source")
    run("convert", tmp_path / "source", tmp_path / "ours", "--to", "universal", *options)
    ours = describe_states(read_states(tag_folder(tmp_path / "ours")))
    assert differences(truth_of(name), ours, ["parameter"]) == []


def test_a_state_of_another_form_is_refused_and_not_lost(ucprun: Path, tmp_path: Path) -> None:
    rewrite("zero1_dp4", "*_optim_states.pt", block_scales, tmp_path / "source")
    command = [str(ucprun), "convert", str(tmp_path / "source"), str(tmp_path / "ours"), "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "--drop-state absmax1 leaves it out" in result.stderr
    assert not (tmp_path / "ours").exists()
    result = subprocess.run([*command, "--drop-state", "absmax2"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "names the state `absmax2`, which no optimizer of the checkpoint has" in result.stderr
