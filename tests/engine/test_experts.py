"""Experts over ranks: a spec can place them, and a wrong idea of who has which expert is seen.

So is a folder that is for other ranks than those that load it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import OWN_SPEC_OF, Run
from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import EngineError, Engines
from native import differences_of_files, read_files
from test_acceptance import NOISE, OTHER_SEED
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

SPEC = """ucp 1
dim hidden
dim experts
dim inner
dim ffn
dim vocabulary
mesh pp, dp, tp, edp, ep
layout mixture {
  "{embed|head}.weight" [vocabulary, hidden]
  "norm.{weight|bias}"  [hidden]
  "tone"                [3]
  block "blocks.{0|2}" {
    "norm.{weight|bias}" [hidden]
    "up.weight"          [ffn, hidden]
    "up.bias"            [ffn]
    "down.weight"        [hidden, ffn]
    "down.bias"          [hidden]
  }
  block "blocks.{1|3}" {
    "norm.{weight|bias}"               [hidden]
    "moe.deepspeed_moe.gate.wg.weight" [experts, hidden]
    block "moe.deepspeed_moe.experts.deepspeed_experts.{e: experts@ep}" {
      "up.weight"   [inner, hidden]
      "up.bias"     [inner]
      "down.weight" [hidden, inner]
      "down.bias"   [hidden]
    }
  }
}
"""


def run_convert(
    ucprun: Path, source: Path, output: Path, *options: str, to: str = "universal"
) -> subprocess.CompletedProcess[str]:
    """Converts, and may fail."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", to, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["moe_ep2_dp4", "moe_ep2_dp4_data_first"])
def test_a_spec_places_experts(name: str, ucprun: Path, tmp_path: Path) -> None:
    (tmp_path / "experts.ucp").write_text(SPEC)
    source = FIXTURES / name / "checkpoint"
    result = run_convert(ucprun, source, tmp_path / "out", "--spec", str(tmp_path / "experts.ucp"))
    assert result.returncode == 0, result.stderr
    ours = describe_states(read_states(tag_folder(tmp_path / "out")))
    assert differences(truth_of(name), ours, ["parameter"]) == []


def test_a_spec_that_places_them_elsewhere_is_refused(ucprun: Path, tmp_path: Path) -> None:
    (tmp_path / "experts.ucp").write_text(SPEC.replace("experts@ep", "experts@ep(list [[0, 2], [1, 3]])"))
    source = FIXTURES / "moe_ep2_dp4" / "checkpoint"
    result = run_convert(ucprun, source, tmp_path / "out", "--spec", str(tmp_path / "experts.ucp"))
    assert result.returncode == 1
    assert "deepspeed_experts.1." in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_target_gives_ranks_the_experts_that_deepspeed_gives_them(
    ucprun: Path, convert: Callable[..., Path], tmp_path: Path
) -> None:
    source = convert("moe_ep2_dp4")
    for places, code in (("experts@ep", 0), ("experts@ep(spread 3)", 2)):
        (tmp_path / "experts.ucp").write_text(SPEC.replace("experts@ep", places))
        spec = ["--spec", str(tmp_path / "experts.ucp")]
        result = run_convert(ucprun, source, tmp_path / f"out{code}", *spec, to="deepspeed:ep=2,dp=2")
        assert result.returncode == code, result.stderr
    assert re.search(r"experts\.2\.\S+` is at ep=0", result.stderr)
    assert "DeepSpeed gives each of 2 ranks 2 experts" in result.stderr
    assert not (tmp_path / "out2").exists()


def test_what_is_no_tensor_in_an_experts_file_is_named(ucprun: Path, tmp_path: Path) -> None:
    """DeepSpeed 0.19.8 could not save it."""
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / "moe_ep2_dp4" / "checkpoint", copy)
    path = copy / (copy / "latest").read_text() / "layer_0_expert_3_mp_rank_00_model_states.pt"
    name = "blocks.1.moe.deepspeed_moe.experts.deepspeed_experts.3._extra_state"
    torch.save(torch.load(path) | {name: {"calls": 7}}, path)
    result = run_convert(ucprun, copy, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert f"'{name}' in `{path.name}` is not a tensor and is not carried" in result.stderr


def without_experts(folder: Path, gone: Callable[[int, int], bool]) -> Path:
    """The checkpoint of two tensor-parallel ranks without the files of some experts, by rank and expert."""
    copy = folder / "copy"
    shutil.copytree(FIXTURES / "moe_tp2_ep2_dp2" / "checkpoint", copy)
    for file in (copy / (copy / "latest").read_text()).glob("layer_*_expert_*"):
        words = file.name.split("_")
        if gone(int(words[6]), int(words[3])):
            file.unlink()
    return copy


def test_every_tensor_parallel_rank_has_its_part_of_an_expert(ucprun: Path, tmp_path: Path) -> None:
    copy = without_experts(tmp_path, lambda rank, expert: (rank, expert) == (1, 2))
    result = run_convert(ucprun, copy, tmp_path / "out", "--spec", str(OWN_SPEC_OF["mixture_tensor"]))
    assert result.returncode == 2
    assert "`layer_0_expert_2_mp_rank_01_model_states.pt` is missing" in result.stderr
    assert not (tmp_path / "out").exists()


def test_parts_of_experts_are_not_taken_for_whole_ones(ucprun: Path, tmp_path: Path) -> None:
    """One file of each expert is what a run without `enable_expert_tensor_parallelism` has; the optimizer differs."""
    copy = without_experts(tmp_path, lambda rank, expert: expert // 2 != rank)
    result = run_convert(ucprun, copy, tmp_path / "out", "--spec", str(OWN_SPEC_OF["mixture_tensor"]))
    assert result.returncode == 2
    assert "is cut over 1 partitions" in result.stderr
    assert "one file of each expert" in result.stderr
    assert not (tmp_path / "out").exists()


def test_ranks_that_are_counted_otherwise(ucprun: Path, tmp_path: Path) -> None:
    """The file of an expert is the first rank's that has it: were ranks in another order, it would be another's."""
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / "moe_tp2_ep4_dp4_whole" / "checkpoint", copy)
    tag = copy / (copy / "latest").read_text()
    name = "layer_1_expert_2_mp_rank_0{}_model_states.pt"
    (tag / name.format(0)).rename(tag / name.format(1))
    result = run_convert(ucprun, copy, tmp_path / "out", "--spec", str(OWN_SPEC_OF["mixture_whole"]))
    assert result.returncode == 2
    assert f"`{name.format(1)}` is of tensor-parallel rank 1" in result.stderr
    assert "rank 0 saves" in result.stderr
    assert not (tmp_path / "out").exists()


def test_whole_experts_that_are_lost_to_their_own_engine(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """If `ep_size` is not a multiple of the tensor-parallel ranks, DeepSpeed leaves out files that it wants back."""
    case = replace(CASES["moe_tp2_ep4_dp4_whole"], mesh=Mesh(tp=2, dp=2), steps=2)
    saved = tmp_path / "saved"
    engines.ask(Job(case, steps=2, save=saved))
    with pytest.raises(EngineError, match="checkpoint count 1 is different from saved mp_world_size 2"):
        engines.ask(Job(case, seed=OTHER_SEED, load=saved, native=True))
    spec = ["--spec", str(OWN_SPEC_OF["mixture_whole"])]
    result = run_convert(ucprun, saved, tmp_path / "out", *spec)
    assert result.returncode == 2
    assert "`mp_rank_01_model_states.pt` is missing" in result.stderr
    source = FIXTURES / "moe_tp2_ep4_dp4_whole" / "checkpoint"
    result = run_convert(ucprun, source, tmp_path / "native", *spec, to="deepspeed:tp=2,dp=2,ep=1")
    assert result.returncode == 2
    assert "lost to DeepSpeed itself" in result.stderr


def test_whole_experts_or_parts_of_them(ucprun: Path, tmp_path: Path) -> None:
    """Tensors that the spec cuts have a part on every rank; others can be whole on each rank, if the job says so."""
    for model, setting, words in (
        ("mixture_tensor", "false", ["expert_tp=false", "cuts `blocks."]),
        ("mixture_whole", "true", ["layer_0_expert_3_mp_rank_00", "layer_0_expert_3_mp_rank_01"]),
    ):
        source = next(case.name for case in CASES.values() if case.model == model)
        spec = ["--spec", str(OWN_SPEC_OF[model])]
        output = tmp_path / model
        to = f"deepspeed:tp=2,dp=2,ep=2,expert_tp={setting}"
        result = run_convert(ucprun, FIXTURES / source / "checkpoint", output, *spec, to=to)
        files = " ".join(sorted(file.name for file in output.glob("*/*")))
        assert all(word in result.stderr + files for word in words), result.stderr
        assert result.returncode == (1 if setting == "false" else 0)


def test_other_owners_than_the_engines_are_seen(ucprun: Path, tmp_path: Path) -> None:
    """The configuration says how expert ranks are counted; were it wrong, masters and weights would not fit."""
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / "moe_ep2_dp4" / "checkpoint", copy)
    path = copy / (copy / "latest").read_text() / "mp_rank_00_model_states.pt"
    states = torch.load(path, weights_only=False)
    states["ds_config"]["use_data_before_expert_parallelism"] = True
    torch.save(states, path)
    result = run_convert(ucprun, copy, tmp_path / "out")
    assert result.returncode == 2
    assert "are not the rounding of their masters" in result.stderr
    assert "deepspeed_experts.2." in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_another_number_of_expert_ranks_is_an_error(ranks: int, engines: Engines, convert: Callable[..., Path]) -> None:
    """An engine opens folders by the names that its ranks have; what a folder is for is marked in its files."""
    folder = convert("moe_ep2_dp4", f"universal:ep={ranks}")
    for ep in {1, 2, 4} - {ranks}:
        job = Job(replace(CASES["moe_ep2_dp4"], mesh=Mesh(dp=4, ep=ep)), seed=OTHER_SEED, load=folder)
        with pytest.raises(EngineError, match=r"AssertionError|FileNotFoundError"):
            engines.ask(job)


def test_without_zero_experts_are_clipped_by_another_norm(engines: Engines) -> None:
    """Continuing with ZeRO gives other losses than without: DeepSpeed's norm is another one if experts are spread."""
    losses = {}
    for stage, ep in ((0, 1), (0, 2), (1, 1), (1, 2)):
        case = replace(CASES["moe_zero0_fp32"], stage=stage, mesh=Mesh(dp=2, ep=ep))
        losses[stage, ep] = engines.ask(Job(case, steps=4))["losses"]
    last = {run: values[-1] for run, values in losses.items()}
    assert abs(last[0, 1] - last[1, 1]) <= NOISE["fp32"]
    assert abs(last[1, 2] - last[1, 1]) <= NOISE["fp32"]
    assert 2 * NOISE["fp32"] < abs(last[0, 2] - last[1, 2]) < 1e-3


def test_frozen_experts_survive(engines: Engines, convert: Callable[..., Path]) -> None:
    """DeepSpeed loads the first rank's frozen parameters everywhere, also from the files that it wrote itself."""
    truth = truth_of("moe_residual_zero2")
    case = CASES["moe_residual_zero2"]
    own = FIXTURES / case.name / "checkpoint"
    ours = convert(case.name, "deepspeed:ep=2,dp=2,zero=2")
    loaded = [engines.ask(Job(case, seed=OTHER_SEED, load=folder, native=True))["loaded"] for folder in (own, ours)]
    wrong, right = (differences(truth, held, ["parameter", "frozen", "buffer"]) for held in loaded)
    assert right == []
    assert len(wrong) == 4  # Of each layer experts 2 and 3, which the second rank has.
    assert all("down.bias" in difference for difference in wrong)
    states = {root: read_files(root)["mp_rank_00_model_states.pt"] for root in (own, ours)}
    assert dict(states[own]["frozen_param_shapes"]) == dict(states[ours]["frozen_param_shapes"])
    assert states[ours]["frozen_param_fragments"] is None


def test_files_without_zero_are_read_again(convert: Callable[..., Path]) -> None:
    """Where nothing lists the optimizer's parameters, the order in the files has to say which is which."""
    whole = convert("moe_ep2_dp4", "deepspeed:dp=4,ep=2,zero=0,dtype=bf16")
    ours = describe_states(read_states(tag_folder(convert("moe_ep2_dp4", "universal", whole))))
    assert differences(truth_of("moe_ep2_dp4"), ours, ["parameter"]) == []


def test_flat_masters_without_zero(engines: Engines, run: Run, tmp_path: Path) -> None:
    """FP16_Optimizer with experts loads and saves what we write; values tell which masters are whose."""
    case = replace(CASES["moe_zero0_fp32"], dtype="fp16", optimizer="fused", config={"gradient_clipping": 0.0})
    saved, whole, again = tmp_path / "saved", tmp_path / "whole", tmp_path / "again"
    truth = engines.ask(Job(replace(case, stage=2), steps=2, save=saved))["saved"]
    run("convert", saved, whole, "--to", "deepspeed:dp=2,ep=2,zero=0,dtype=fp16")
    engines.ask(Job(case, seed=OTHER_SEED, load=whole, native=True, first_step=2, save=again, further_steps=1))
    assert differences_of_files(whole, again) == []
    run("convert", again, tmp_path / "read", "--to", "universal")
    assert differences(truth, describe_states(read_states(tag_folder(tmp_path / "read"))), ["parameter"]) == []
