"""Checkpoints without ZeRO are read as the state that the real engine held, in every form of its optimizer.

Nothing in such files lists the optimizer's parameters: views, shapes, and where masters are of another type than the
module their values say which is which.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import Run
from fixtures.cases import CASES, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from universal import FIXTURES, describe_states, read_states, tag_folder, tensor_of

AUTOEP = replace(CASES["autoep_ep2_dp4"], stage=0, mesh=Mesh(dp=2, ep=2))
FOLDED = replace(CASES["autoep_tp2_ep4_dp4"], stage=0)

SAVED = {
    "AutoEP in float32": replace(AUTOEP, dtype="fp32"),
    "AutoEP, a master for each parameter": AUTOEP,
    "AutoEP, a flat master for each group": replace(AUTOEP, optimizer="fused"),
    "AutoEP, copies of experts": replace(AUTOEP, mesh=Mesh(dp=4, ep=2)),
    "AutoEP, neighbours have the same experts": replace(AUTOEP, mesh=Mesh(dp=4, ep=2), data_before_experts=True),
    "AutoEP beside AutoTP": replace(FOLDED, mesh=Mesh(tp=2, dp=2, ep=4), dtype="fp32"),
    "AutoEP beside AutoTP, copies of experts": replace(FOLDED, mesh=Mesh(tp=4, ep=2)),
    "experts, a flat master for each group": replace(CASES["moe_zero0_fp32"], dtype="bf16", optimizer="fused"),
    "a pipeline, a flat master for each of two groups": replace(CASES["pipeline_zero0_fused_fp16"], groups="decay"),
    "frozen parameters of trained shapes": replace(CASES["frozen_buffers_zero2"], stage=0),
}


@pytest.mark.parametrize("form", SAVED)
def test_what_is_read_is_what_the_engine_held(form: str, engines: Engines, run: Run, tmp_path: Path) -> None:
    case: Case = SAVED[form]
    truth = engines.ask(Job(case, steps=2, save=tmp_path / "saved"))["saved"]
    to = "universal:mp=1" if case.model == "autoep_autotp" else "universal"
    run("convert", tmp_path / "saved", tmp_path / "ours", "--to", to)
    assert differences(truth, describe_states(read_states(tag_folder(tmp_path / "ours"))), ["parameter"]) == []


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("name", ["pipeline_zero0_fp32", "pipeline_zero0_fp16", "pipeline_zero0_fused_fp16"])
def test_a_pipeline_that_was_written_is_read_again(name: str, stages: int, run: Run, tmp_path: Path) -> None:
    """Its layer files have the order of the optimizer's parameters, as the engine's have."""
    source, native = FIXTURES / name / "checkpoint", tmp_path / "native"
    run("convert", source, native, "--to", f"deepspeed:pp={stages},dp=2,zero=0")
    run("diff", source, native, "--read-all")
    for theirs in source.glob("*/layer_*"):
        (ours,) = native.glob(f"*/{theirs.name}")
        orders = [list(torch.load(file, weights_only=False)) for file in (theirs, ours)]
        for ending in ("norm.weight", "norm.bias", "up.bias", "down.bias"), ("up.weight", "down.weight"):  # The groups.
            assert len({tuple(key for key in order if key in ending) for order in orders}) == 1, theirs.name


def test_partitions_that_experts_do_not_divide_over(run: Run, ucprun: Path, tmp_path: Path) -> None:
    """Beside AutoTP nothing but `folding` says how many partitions there were."""
    strategy = "deepspeed:tp=2,dp=4,ep=4,zero=0,dtype=fp32"
    run("convert", FIXTURES / FOLDED.name / "checkpoint", tmp_path / "whole", "--to", strategy)
    for file in (tmp_path / "whole").glob("*/mp_rank_*_model_states.pt"):
        states = torch.load(file, weights_only=False)
        states["folding"]["zero_partition_count"] = 3
        torch.save(states, file)
    command = [ucprun, "convert", tmp_path / "whole", tmp_path / "out", "--to", "universal:mp=1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    assert "experts are spread over 4 ranks, and `folding` has 3 partitions on each of 2 tensor" in result.stderr


def test_values_that_two_parameters_have(ucprun: Path, tmp_path: Path) -> None:
    """A frozen parameter with the values of a trained one could be that one."""
    root = tmp_path / "copy"
    shutil.copytree(FIXTURES / "zero0_unfused_bf16" / "checkpoint", root)
    (file,) = root.glob("*/mp_rank_00_model_states.pt")
    states = torch.load(file, weights_only=False)
    states["module"]["another.bias"] = states["module"]["blocks.0.up.bias"].clone()
    torch.save(states, file)
    command = [ucprun, "convert", root, tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    assert "it steps 2 of the 3 parameters of [47], and by values" in result.stderr
    assert "have the same values, and group 1 has one of them" in result.stderr
    states["module"]["another.bias"] += 1
    torch.save(states, file)
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run


@pytest.mark.parametrize("is_reversed", [False, True])
def test_values_that_parameters_of_a_group_have(ucprun: Path, tmp_path: Path, is_reversed: bool) -> None:
    """A young job's norms all round to one: the module's order tells them apart, if their group is in it."""
    root = tmp_path / "copy"
    shutil.copytree(FIXTURES / "zero0_unfused_bf16" / "checkpoint", root)
    (file,) = root.glob("*/mp_rank_00_model_states.pt")
    states = torch.load(file, weights_only=False)
    optimizer, module = states["optimizer"], states["module"]
    masters = optimizer["fp32_groups"][1]
    norms = [name for name in module if name.endswith("norm.weight")]
    held = {}
    for i, name in enumerate(norms):
        (place,) = (p for p, m in enumerate(masters) if torch.equal(m.detach().bfloat16(), module[name]))
        masters[place].data.fill_(1 + 1e-4 * (i + 1))
        held[name] = masters[place].detach().clone()
    for name in norms:
        module[name].fill_(1)
    if is_reversed:
        of_group = optimizer["optimizer_state_dict"]["param_groups"][1]["params"]
        moments = optimizer["optimizer_state_dict"]["state"]
        moments.update(zip(of_group, [moments[i] for i in reversed(of_group)], strict=True))
        masters.reverse()
    torch.save(states, file)
    command = [ucprun, "convert", root, tmp_path / "out", "--to", "universal"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if is_reversed:
        assert result.returncode == 2, result
        assert "have the same values, and group 1 does not have its parameters in the module's order" in result.stderr
        return
    assert result.returncode == 0, result
    read = read_states(tag_folder(tmp_path / "out"))
    for name, master in held.items():
        assert torch.equal(tensor_of(read[name]["fp32"]).flatten(), master.flatten()), name


@pytest.mark.parametrize("late", [False, True], ids=["the module's order", "routers behind the others"])
def test_one_flat_group_whose_norms_round_to_one(run: Run, tmp_path: Path, late: bool) -> None:
    """Values at their places in one order or the other tell where the routers of AutoEP are."""
    root = tmp_path / "flat"
    to = "deepspeed:dp=2,ep=2,zero=0,dtype=bf16,optimizer=fused"
    run("convert", FIXTURES / "autoep_ep2_dp4_zero3" / "checkpoint", root, "--to", to)
    (model,) = root.glob("*/mp_rank_00_model_states.pt")
    module = torch.load(model, weights_only=False)["module"]
    written = [name for name, tensor in module.items() if tensor.dtype == torch.bfloat16]
    routers_first = sorted(written, key=lambda name: ".router." not in name)
    order = sorted(written, key=lambda name: ".router." in name) if late else routers_first
    held = {}
    for file in [model, *root.glob("*/expp_*")]:
        states = torch.load(file, weights_only=False)
        optimizer = states["optimizer"]
        master = optimizer["fp32_groups_flat"][0].detach()
        parts = dict(zip(written, master.split([module[name].numel() for name in written]), strict=True))
        for i, name in enumerate(name for name in written if "norm" in name):
            parts[name].fill_(1 + 1e-4 * (i + 1))
        held = {name: part.clone() for name, part in parts.items()}
        optimizer["fp32_groups_flat"][0] = torch.cat([held[name] for name in order])
        if "module" in states:
            for name in written:
                if "norm" in name:
                    states["module"][name].fill_(1)
            others = [name for name in states["module"] if name not in parts]
            states["module"] = {name: states["module"][name] for name in [*routers_first, *others]}
        torch.save(states, file)
    run("convert", root, tmp_path / "out", "--to", "universal")
    read = read_states(tag_folder(tmp_path / "out"))
    for name, part in held.items():
        assert torch.equal(tensor_of(read[name]["fp32"]).flatten(), part), name
