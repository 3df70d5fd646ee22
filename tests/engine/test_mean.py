"""Norms that drifted apart over the tensor ranks, converted with `mean@tp`, are what DeepSpeed's converter makes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import SPEC_OF
from fixtures.serve import Conversion, Engines
from universal import FIXTURES, read_states, tag_folder

NAME = "gpt_pp2_tp2_dp2"
MEAN = re.compile(r"\d+\.((input|post_attention)_layernorm\.)?(weight|bias)")
STATES = ("exp_avg", "exp_avg_sq", "fp32")


def let_drift(folder: Path, ranks: str, names: re.Pattern[str]) -> None:
    """Changes every state of these tensors on some model-parallel ranks, in place."""
    generator = torch.Generator().manual_seed(4)
    for file in sorted(folder.glob(f"*_mp_rank_0{ranks}_optim_states.pt")):
        checkpoint = torch.load(file, weights_only=False)
        optimizer = checkpoint["optimizer_state_dict"]
        for group, addresses in enumerate(optimizer["param_slice_mappings"]):
            moments = optimizer["base_optimizer_state"]["state"][group]
            master = optimizer["single_partition_of_fp32_groups"][group].data
            for address in (address for name, address in addresses.items() if names.fullmatch(name)):
                for flat in (moments["exp_avg"], moments["exp_avg_sq"], master):
                    flat.narrow(0, address.start, address.numel).mul_(
                        1 + 0.3 * torch.rand(address.numel, generator=generator)
                    )
        torch.save(checkpoint, file)


def declare_averaged(folder: Path, is_averaged: Callable[[str], bool]) -> None:
    """Says in the metadata that these patterns, replicated so far, are to be averaged."""
    for file in sorted(folder.glob("mp_rank_*_model_states.pt")):
        checkpoint = torch.load(file, weights_only=False)
        info = checkpoint["universal_checkpoint_info"]
        replicated = info["tp_replicated_parameter_patterns"]
        averaged = [pattern for pattern in replicated if is_averaged(pattern)]
        info["tp_replicated_parameter_patterns"] = [pattern for pattern in replicated if pattern not in averaged]
        info["parameter_to_average_patterns"] = averaged
        for pattern in averaged:
            info.get("affine_map", {"params": {}})["params"].pop(pattern, None)
        torch.save(checkpoint, file)


def is_of_norms(pattern: str) -> bool:
    """Whether one of DeepSpeed's patterns is that of a norm."""
    return MEAN.fullmatch(pattern.replace(r"\d+", "3")) is not None


def spec_with_means(text: str) -> str:
    """The spec of the model, with its norms averaged."""
    text, count = re.subn(r'(layernorm\.\{weight\|bias\}"\s+\[hidden\])', r"\1 mean@tp", text)
    assert count == 2
    text, count = re.subn(r'(\{layers \+ 4\}\.\{weight\|bias\}"\s+\[hidden\])', r"\1 mean@tp", text)
    assert count == 1
    return text


def convert(ucprun: Path, source: Path, output: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Runs our converter."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", "universal", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """Every state of every parameter of a universal folder."""
    found: dict[str, Any] = read_states(tag_folder(folder))
    return {f"{name} {state}": files[state]["param"] for name, files in found.items() for state in STATES}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether they are the same to the bit, the signs of zeros too."""
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def test_drifted_norms_are_averaged_as_deepspeed_does(ucprun: Path, engines: Engines, tmp_path: Path) -> None:
    """The same bits in all states of all tensors; what drifted is neither rank's copy. Without `mean` it is refused."""
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / NAME / "checkpoint", source)
    tag = (source / "latest").read_text()
    let_drift(source / tag, "[13]", MEAN)
    declare_averaged(source / tag, is_of_norms)
    spec = tmp_path / "means.ucp"
    spec.write_text(spec_with_means(SPEC_OF["gpt"].read_text()))

    theirs = tmp_path / "theirs"
    engines.ask(Conversion(source / tag, theirs / f"{tag}_universal", inject=False))
    ours = tmp_path / "ours"
    result = convert(ucprun, source, ours, "--spec", spec)
    assert result.returncode == 0, result.stderr
    expected, found = tensors_of(theirs), tensors_of(ours)
    assert found.keys() == expected.keys()
    assert [key for key in found if not same_bits(found[key], expected[key])] == []

    undrifted = tmp_path / "undrifted"
    assert convert(ucprun, FIXTURES / NAME / "checkpoint", undrifted, "--spec", SPEC_OF["gpt"]).returncode == 0
    before = tensors_of(undrifted)
    moved = {key for key in found if not torch.equal(found[key], before[key])}
    assert moved == {key for key in found if MEAN.fullmatch(key.split()[0])}

    refused = convert(ucprun, source, tmp_path / "refused", "--spec", SPEC_OF["gpt"])
    assert refused.returncode != 0
    assert "has two values" in refused.stderr


NORM = re.compile(r"model\.norm\.weight|model\.layers\.\d+\.(input|post_attention)_layernorm\.weight")


@pytest.mark.parametrize("name", ["autotp_tp2_dp2", "autotp_tp3_zero2"])
def test_the_metadata_alone_says_mean(name: str, ucprun: Path, engines: Engines, tmp_path: Path) -> None:
    """Without a spec: under ZeRO-1 over two partitions, and under ZeRO-2 over three tensor ranks."""
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / name / "checkpoint", source)
    tag = (source / "latest").read_text()
    let_drift(source / tag, "[12]", NORM)
    declare_averaged(source / tag, lambda pattern: "norm" in pattern)
    theirs = tmp_path / "theirs"
    engines.ask(Conversion(source / tag, theirs / f"{tag}_universal", inject=False))
    ours = tmp_path / "ours"
    result = convert(ucprun, source, ours)
    assert result.returncode == 0, result.stderr
    assert "16 of them by affine maps and 5 by patterns" in result.stderr
    expected, found = tensors_of(theirs), tensors_of(ours)
    assert found.keys() == expected.keys()
    assert [key for key in found if not same_bits(found[key], expected[key])] == []
    undrifted = tmp_path / "undrifted"
    assert convert(ucprun, FIXTURES / name / "checkpoint", undrifted).returncode == 0
    before = tensors_of(undrifted)
    assert {key for key in found if not torch.equal(found[key], before[key])} == {
        key for key in found if NORM.fullmatch(key.split()[0])
    }
