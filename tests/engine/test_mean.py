"""Norms that drifted apart over the tensor ranks, converted with `mean@tp`, are what DeepSpeed's converter makes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from conftest import SPEC_OF
from fixtures.serve import Conversion, Engines
from universal import FIXTURES, read_states, tag_folder

NAME = "gpt_pp2_tp2_dp2"
MEAN = re.compile(r"\d+\.((input|post_attention)_layernorm\.)?(weight|bias)")
STATES = ("exp_avg", "exp_avg_sq", "fp32")


def let_drift(folder: Path) -> None:
    """Changes every norm's states on the ranks that are 1 of tp, in place, and declares the norms to be averaged."""
    generator = torch.Generator().manual_seed(4)
    for file in sorted(folder.glob("*_mp_rank_0[13]_optim_states.pt")):
        checkpoint = torch.load(file, weights_only=False)
        optimizer = checkpoint["optimizer_state_dict"]
        for group, addresses in enumerate(optimizer["param_slice_mappings"]):
            moments = optimizer["base_optimizer_state"]["state"][group]
            master = optimizer["single_partition_of_fp32_groups"][group].data
            for address in (address for name, address in addresses.items() if MEAN.fullmatch(name)):
                for flat in (moments["exp_avg"], moments["exp_avg_sq"], master):
                    flat.narrow(0, address.start, address.numel).mul_(
                        1 + 0.3 * torch.rand(address.numel, generator=generator)
                    )
        torch.save(checkpoint, file)
    for file in sorted(folder.glob("mp_rank_*_model_states.pt")):
        checkpoint = torch.load(file, weights_only=False)
        info = checkpoint["universal_checkpoint_info"]
        norms = [pattern for pattern in info["tp_replicated_parameter_patterns"] if is_of_norms(pattern)]
        info["tp_replicated_parameter_patterns"] = [
            pattern for pattern in info["tp_replicated_parameter_patterns"] if pattern not in norms
        ]
        info["parameter_to_average_patterns"] = norms
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


def convert(ucprun: Path, source: Path, output: Path, spec: Path) -> subprocess.CompletedProcess[str]:
    """Runs our converter."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", "universal", "--spec", str(spec)]
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
    let_drift(source / tag)
    spec = tmp_path / "means.ucp"
    spec.write_text(spec_with_means(SPEC_OF["gpt"].read_text()))

    theirs = tmp_path / "theirs"
    engines.ask(Conversion(source / tag, theirs / f"{tag}_universal", inject=False))
    ours = tmp_path / "ours"
    result = convert(ucprun, source, ours, spec)
    assert result.returncode == 0, result.stderr
    expected, found = tensors_of(theirs), tensors_of(ours)
    assert found.keys() == expected.keys()
    assert [
        key for key in found if not torch.equal(found[key].view(torch.int32), expected[key].view(torch.int32))
    ] == []

    undrifted = tmp_path / "undrifted"
    assert convert(ucprun, FIXTURES / NAME / "checkpoint", undrifted, SPEC_OF["gpt"]).returncode == 0
    before = tensors_of(undrifted)
    moved = {key for key in found if not torch.equal(found[key], before[key])}
    assert moved == {key for key in found if MEAN.fullmatch(key.split()[0])}

    refused = convert(ucprun, source, tmp_path / "refused", SPEC_OF["gpt"])
    assert refused.returncode != 0
    assert "has two values" in refused.stderr
