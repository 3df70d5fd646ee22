"""Forms that DeepSpeed's files can have, and no fixture has: a fixture is rewritten, and the truth stays."""

from __future__ import annotations

import shutil
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


FORMS: list[tuple[str, str, Change]] = [("zero3_dp4", "*_optim_states.pt", one_storage_for_all_sub_groups)]


@pytest.mark.parametrize(("name", "files", "change"), FORMS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_same_truth_in_another_form(name: str, files: str, change: Change, run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / name / "checkpoint", source)
    rewritten = sorted(source.glob(f"*/{files}"))
    assert rewritten
    for path in rewritten:
        content = torch.load(path, weights_only=False)
        change(content)
        torch.save(content, path)
    run("convert", source, tmp_path / "ours", "--to", "universal")
    ours = describe_states(read_states(tag_folder(tmp_path / "ours")))
    assert differences(truth_of(name), ours, ["parameter"]) == []
