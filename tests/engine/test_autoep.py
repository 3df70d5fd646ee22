"""Experts that AutoEP spreads: any placement of them is read, and a wrong one is seen."""

from __future__ import annotations

import re
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Convert, Run
from fixtures.cases import CASES
from fixtures.fingerprints import describe, differences
from fixtures.jobs import Job
from fixtures.serve import Conversion, EngineError, Engines
from placements import Placement, place_otherwise, place_stages
from spoken import refused, told
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

NAMES = ["autoep_ep2_dp4", "autoep_ep2_dp4_data_first", "autoep_ep2_dp4_zero3"]
FOLDED = ["autoep_tp4_ep2", "autoep_tp4_ep2_dp2_zero3"]  # Beside tensor parallelism, also with two expert ranks.

PLACEMENTS: dict[str, Placement] = {
    "as it was": [[0, 1], [2, 3]],
    "without order": [[3, 0], [1, 2]],
    "uneven": [[2], [0, 1, 3]],
    "replicated": [[0, 1, 2], [3, 2]],
    "one rank has all": [[0, 1, 2, 3], []],
}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", [*NAMES, *FOLDED])
def test_any_placement_is_the_same_model(name: str, placement: str, run: Run, tmp_path: Path) -> None:
    place_otherwise(FIXTURES / name / "checkpoint", tmp_path / "placed", PLACEMENTS[placement])
    run("convert", tmp_path / "placed", tmp_path / "ours", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "ours"))
    assert differences(truth_of(name), describe_states(states), ["parameter"]) == []


@pytest.mark.parametrize("second", ["without order", "replicated", "one rank has all"])
def test_each_stage_of_a_pipeline_has_a_placement(second: str, run: Run, tmp_path: Path) -> None:
    """Though layers of both have the same number in the names of their files."""
    name = "autoep_pp2_ep2_dp4"
    placements = [PLACEMENTS["uneven"], PLACEMENTS[second]]
    place_stages(FIXTURES / name / "checkpoint", tmp_path / "placed", placements)
    run("convert", tmp_path / "placed", tmp_path / "ours", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "ours"))
    assert differences(truth_of(name), describe_states(states), ["parameter"]) == []


def convert_with_deepspeed(engines: Engines, name: str, placement: str, folder: Path) -> list[str]:
    """The placement that its converter makes, and the tensors in which that is not the model."""
    place_otherwise(FIXTURES / name / "checkpoint", folder / "placed", PLACEMENTS[placement])
    tag = (folder / "placed" / "latest").read_text()
    engines.ask(Conversion(folder / "placed" / tag, folder / "theirs" / f"{tag}_universal", inject=False))
    truth = truth_of(name)
    truth["tensors"] = {tensor: entry for tensor, entry in truth["tensors"].items() if ".experts." in tensor}
    theirs = describe_states(read_states(tag_folder(folder / "theirs")))
    theirs["tensors"] = {tensor: entry for tensor, entry in theirs["tensors"].items() if ".experts." in tensor}
    return differences(truth, theirs, ["parameter"])


@pytest.mark.parametrize("placement", ["without order", "uneven", "replicated"])
def test_deepspeed_reads_these_placements_as_we_do(placement: str, engines: Engines, tmp_path: Path) -> None:
    """Its converter, at stage 3, is the judge of what was built above."""
    assert convert_with_deepspeed(engines, "autoep_ep2_dp4_zero3", placement, tmp_path) == []


def test_deepspeed_forgets_placements_below_stage_3(engines: Engines, tmp_path: Path) -> None:
    """There its converter keeps six fields of a layer's metadata, and the placement is not among them."""
    found = convert_with_deepspeed(engines, "autoep_ep2_dp4", "without order", tmp_path / "permuted")
    assert len(found) == 18
    with pytest.raises(EngineError, match="expert count mismatch"):
        convert_with_deepspeed(engines, "autoep_ep2_dp4", "uneven", tmp_path / "uneven")


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_with_autoep_is_told_which_tensors_have_experts(name: str, convert: Convert) -> None:
    """The keys that DeepSpeed's own converter writes, and on no other tensor."""
    for tensor, files in read_states(tag_folder(convert(name))).items():
        for key, value in files.items():
            if key != "step":
                expected = {"cat_dim": 0, "is_expert_param": True, "ep_num_experts": 4} if ".experts." in tensor else {}
                assert {k: v for k, v in value.items() if k != "param"} == expected, f"{tensor} {key}"


Change = Callable[[dict[str, Any]], None]


def damage(source: Path, target: Path, change: Change) -> Path:
    """A copy whose model-states file is another."""
    shutil.copytree(source, target)
    (path,) = target.glob("*/mp_rank_00_model_states.pt")
    states = torch.load(path, weights_only=False)
    change(states)
    torch.save(states, path)
    return target


def placed(experts: list[list[int]]) -> Change:
    """Another placement in the metadata alone, without its maps."""

    def change(states: dict[str, Any]) -> None:
        for layer in states["ds_autoep_layers"]:
            del layer["affine_maps"]
            for rank, own in zip(layer["expert_placement"]["ranks"], experts, strict=True):
                rank["experts"] = own

    return change


def test_a_placement_that_is_not_so_is_seen(ucprun: Path, tmp_path: Path) -> None:
    """The weights have their experts in their names, and must be the rounding of the masters."""
    copy = damage(FIXTURES / "autoep_ep2_dp4" / "checkpoint", tmp_path / "copy", placed([[2, 3], [0, 1]]))
    message = refused(ucprun, copy, tmp_path / "out", "--to", "universal")
    assert "are not the rounding of their masters" in message
    assert "model.layers.1.mlp.experts.w1" in message


def test_a_placement_against_its_maps_is_refused(ucprun: Path, tmp_path: Path) -> None:
    def change(states: dict[str, Any]) -> None:
        states["ds_autoep_layers"][1]["expert_placement"]["ranks"][0]["experts"] = [1, 0]

    copy = damage(FIXTURES / "autoep_ep2_dp4" / "checkpoint", tmp_path / "copy", change)
    message = refused(ucprun, copy, tmp_path / "out", "--to", "universal")
    assert "of `model.layers.2.mlp.experts` places experts otherwise than its affine map" in message


def test_a_universal_folder_of_another_number_of_experts_is_refused(
    convert: Convert, ucprun: Path, tmp_path: Path
) -> None:
    """Of DeepSpeed's converter, which leaves the list where a native checkpoint has it."""
    prefix = "model.layers.1.mlp.experts"
    layer = {"moe_layer_id": 0, "expert_key_prefix": prefix, "num_experts": 6, "num_local_experts": 3, "ep_size": 2}
    copy = damage(convert("autoep_ep2_dp4"), tmp_path / "copy", lambda states: states.update(ds_autoep_layers=[layer]))
    message = refused(ucprun, copy, tmp_path / "out", "--to", "universal")
    assert f"`{prefix}.w1` has 4 experts, and `{prefix}` has 6 by `ds_autoep_layers`" in message


def test_copies_of_experts_are_compared(ucprun: Path, tmp_path: Path) -> None:
    """Tensor-parallel ranks 0 and 2 of four are the first of two expert ranks, and each saved its weights."""
    shutil.copytree(FIXTURES / "autoep_tp4_ep2" / "checkpoint", tmp_path / "copy")
    tag = tmp_path / "copy" / (tmp_path / "copy" / "latest").read_text()
    name = "layer_0_expert_1_mp_rank_02_model_states.pt"
    weights = torch.load(tag / name, weights_only=False)
    weights["model.layers.1.mlp.experts.w2.1"][3, 2] += 1
    torch.save(weights, tag / name)
    said = told(ucprun, tmp_path / "copy", tmp_path / "out", "--to", "universal:mp=1")
    assert "`model.layers.1.mlp.experts.w2` are not the rounding of their masters in 1 element" in said
    changed = float(weights["model.layers.1.mlp.experts.w2.1"][3, 2])
    assert re.search(rf"element \[1, 3, 2\] is {changed} \(0x\w+\) in `{tag / name}`", said)


def test_an_expert_of_another_checkpoint_is_seen(ucprun: Path, tmp_path: Path) -> None:
    """One of the two files of experts that a rank's shard is joined of: half of its weights are other ones."""
    shutil.copytree(FIXTURES / "autoep_ep2_dp4" / "checkpoint", tmp_path / "copy")
    (path,) = (tmp_path / "copy").glob("*/layer_1_expert_2_mp_rank_00_model_states.pt")
    weights = torch.load(path, weights_only=False)
    torch.save({name: tensor.flip(0) for name, tensor in weights.items()}, path)
    message = refused(ucprun, tmp_path / "copy", tmp_path / "out", "--to", "universal")
    assert re.search(
        r"of the 96 weights of `model\.layers\.2\.mlp\.experts\.w\d` that a rank holds in one file", message
    )
    assert path.name in message


def test_a_file_of_experts_that_is_an_object_is_refused(ucprun: Path, tmp_path: Path) -> None:
    """Its attributes are found as a dict's entries are, and it has no entries."""
    shutil.copytree(FIXTURES / "autoep_tp4_ep2" / "checkpoint", tmp_path / "copy")
    (file,) = (tmp_path / "copy").glob("*/layer_0_expert_0_mp_rank_00_model_states.pt")
    torch.save(Namespace(folding=torch.load(file, weights_only=False)["folding"]), file)
    message = refused(ucprun, tmp_path / "copy", tmp_path / "out", "--to", "universal:mp=1")
    assert "layer_0_expert_0_mp_rank_00_model_states.pt" in message
    assert "is not a dict of tensors" in message


def test_a_folded_engine_wants_its_degrees(engines: Engines, convert: Convert) -> None:
    """It loads no folder that does not say them, or says others."""
    case = CASES["autoep_tp2_ep4_dp4"]
    with pytest.raises(EngineError, match=r"Missing AutoEP\+AutoTP folding metadata"):
        engines.ask(Job(case, load=convert(case.name, "universal:mp=2")))
    with pytest.raises(EngineError, match="mismatch for zero_partition_count: saved=2 runtime=4"):
        engines.ask(Job(case, load=convert(case.name, "universal:mp=2,ep=4,dp=2")))


def test_no_engine_loads_a_folder_without_degrees(ucprun: Path, tmp_path: Path) -> None:
    """The source had two tensor-parallel ranks, and so has the folder, unless a test asks for others."""
    source = FIXTURES / "autoep_tp2_ep4_dp4" / "checkpoint"
    said = told(ucprun, source, tmp_path / "two", "--to", "universal")
    assert "no engine loads this folder; say `mp=2,ep=E,dp=D` for one, or `mp=1`" in said
    assert "no engine loads" not in told(ucprun, source, tmp_path / "one", "--to", "universal:mp=1")


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", [*NAMES, *FOLDED])
def test_native_files_have_the_engines_placement(name: str, placement: str, run: Run, tmp_path: Path) -> None:
    """Wherever the experts were, each of the ranks gets equally many neighbours, and the model is the same."""
    place_otherwise(FIXTURES / name / "checkpoint", tmp_path / "placed", PLACEMENTS[placement])
    strategy = f"deepspeed:tp={CASES[name].mesh.tp},dp=4,ep=4"
    run("convert", tmp_path / "placed", tmp_path / "native", "--to", strategy)
    layers = [
        layer
        for file in (tmp_path / "native").glob("*/*mp_rank_00_model_states.pt")
        for layer in torch.load(file, weights_only=True).get("ds_autoep_layers", [])
    ]
    assert len(layers) == (8 if name.endswith("zero3") else 2)
    for layer in layers:
        assert [rank["experts"] for rank in layer["expert_placement"]["ranks"]] == [[0], [1], [2], [3]]
    run("convert", tmp_path / "native", tmp_path / "back", "--to", "universal:mp=1")
    states = read_states(tag_folder(tmp_path / "back"))
    assert differences(truth_of(name), describe_states(states), ["parameter"]) == []


def test_ranks_with_other_numbers_of_sub_groups(run: Run, tmp_path: Path) -> None:
    """Uneven cuts fill more sub-groups on some tensor-parallel ranks, and those of experts come behind."""
    name = "autoep_tp4_ep2_dp2_zero3"
    strategy = "deepspeed:tp=4,dp=2,ep=2,zero=3,sub_group_size=560"
    run("convert", FIXTURES / name / "checkpoint", tmp_path / "native", "--to", strategy)
    files = sorted((tmp_path / "native").glob("*/*zero_pp_rank_0_*_optim_states.pt"))
    counts = [len(torch.load(file, weights_only=False)["optimizer_state_dict"]["fp32_flat_groups"]) for file in files]
    assert counts == [6, 6, 5, 5]
    run("convert", tmp_path / "native", tmp_path / "back", "--to", "universal:mp=1")
    states = read_states(tag_folder(tmp_path / "back"))
    assert differences(truth_of(name), describe_states(states), ["parameter"]) == []


def test_the_order_of_layers_is_not_guessed(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Experts' files are numbered by it. DeepSpeed's own universal folder says it, unless a layer is left out."""
    source = FIXTURES / "autoep_ep2_dp4" / "checkpoint"
    tag = (source / "latest").read_text()
    theirs = tmp_path / "theirs" / f"{tag}_universal"
    engines.ask(Conversion(source / tag, theirs, inject=True))
    states = torch.load(theirs / "mp_rank_00_model_states.pt", weights_only=False)
    del states["ds_autoep_layers"][0]
    torch.save(states, theirs / "mp_rank_00_model_states.pt")
    message = refused(ucprun, tmp_path / "theirs", tmp_path / "out", "--to", "deepspeed:dp=4,ep=2,zero=1")
    assert "the source does not say the order of its layers with experts" in message


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [NAMES[0], "autoep_ep2_dp4_zero3"])
def test_files_without_zero_are_read_again(name: str, dtype: str, run: Run, tmp_path: Path) -> None:
    """In float32 the files of weights are the masters; of the second, FusedAdam's, masters are flat in bfloat16."""
    strategy = f"deepspeed:dp=2,ep=2,zero=0,dtype={dtype}"
    run("convert", FIXTURES / name / "checkpoint", tmp_path / "whole", "--to", strategy)
    run("convert", tmp_path / "whole", tmp_path / "back", "--to", "universal")
    assert differences(truth_of(name), describe_states(read_states(tag_folder(tmp_path / "back"))), ["parameter"]) == []


def test_an_optimizer_without_zero_that_is_missing(run: Run, ucprun: Path, tmp_path: Path) -> None:
    source = FIXTURES / "autoep_ep2_dp4" / "checkpoint"
    run("convert", source, tmp_path / "whole", "--to", "deepspeed:dp=2,ep=2,zero=0,dtype=fp32")
    (file,) = (tmp_path / "whole").glob("*/expp_rank_1_*")
    shutil.copy(file, file.with_name("expp_rank_2_mp_rank_00_optim_states.pt"))
    message = refused(ucprun, tmp_path / "whole", tmp_path / "out", "--to", "universal")
    assert "the experts are shared out over 2 ranks" in message
    file.unlink()
    message = refused(ucprun, tmp_path / "whole", tmp_path / "out", "--to", "universal")
    assert "`expp_rank_1_mp_rank_00_optim_states.pt` is missing" in message


SPEC = """ucp 1
mesh pp, dp, tp, edp, ep
layout deepseek {
  "lm_head.weight"            [101, 16]
  "model.embed_tokens.weight" [101, 16]
  "model.norm.weight"         [16]
  block "model.layers.{i: 3}" {
    "input_layernorm.weight"              [16]
    "post_attention_layernorm.weight"     [16]
    "self_attn.kv_a_layernorm.weight"     [6]
    "self_attn.kv_a_proj_with_mqa.weight" [10, 16]
    "self_attn.kv_b_proj.weight"          [22, 6]
    "self_attn.o_proj.weight"             [16, 10]
    "self_attn.q_a_layernorm.weight"      [5]
    "self_attn.q_a_proj.weight"           [5, 16]
    "self_attn.q_b_proj.weight"           [20, 5]
    when i == 0 {
      "mlp.down_proj.weight" [16, 20]
      "mlp.gate_proj.weight" [20, 16]
      "mlp.up_proj.weight"   [20, 16]
    }
    when i >= 1 {
      "mlp.experts.w1"                            [EXPERTS, 6, 16]
      "mlp.experts.w2"                            [EXPERTS, 16, 6]
      "mlp.experts.w3"                            [EXPERTS, 6, 16]
      buffer "mlp.router.e_score_correction_bias" [4]
      "mlp.router.gate.weight"                    [4, 16]
      "mlp.shared_experts.down_proj.weight"       [16, 6]
      "mlp.shared_experts.gate_proj.weight"       [6, 16]
      "mlp.shared_experts.up_proj.weight"         [6, 16]
    }
  }
}
"""


def test_a_spec_that_places_them_otherwise_is_refused(convert: Convert, ucprun: Path, tmp_path: Path) -> None:
    place_otherwise(FIXTURES / NAMES[0] / "checkpoint", tmp_path / "placed", [[2, 3], [0, 1]])
    for source, experts, places in (
        (convert(NAMES[0]), "4", "0..4"),
        (tmp_path / "placed", "4@ep(list [[2, 3], [0, 1]])", "2..4"),
    ):
        (tmp_path / "deepseek.ucp").write_text(SPEC.replace("EXPERTS", experts))
        options = ["--to", "deepspeed:dp=2,ep=2,zero=2", "--spec", str(tmp_path / "deepseek.ucp")]
        message = refused(ucprun, source, tmp_path / "out", *options)
        assert f"expert rank 0 of 2 has [{places}, 0..6, 0..16] of `model.layers.1.mlp.experts.w1`" in message
        assert "and DeepSpeed gives it [0..2, 0..6, 0..16]" in message


def test_a_spec_that_cuts_them_evenly(convert: Convert, run: Run, ucprun: Path, tmp_path: Path) -> None:
    spec = tmp_path / "deepseek.ucp"
    spec.write_text(SPEC.replace("EXPERTS", "4@ep"))
    source = FIXTURES / "autoep_ep2_dp4" / "checkpoint"
    run("convert", source, tmp_path / "native", "--to", "deepspeed:dp=4,ep=4", "--spec", spec)
    run("convert", source, tmp_path / "without", "--to", "deepspeed:dp=4,ep=4")
    for file in sorted((tmp_path / "without").glob("*/*.pt")):
        assert file.read_bytes() == (tmp_path / "native" / file.parent.name / file.name).read_bytes(), file.name


def test_hub_folders_have_other_names(ucprun: Path, tmp_path: Path) -> None:
    source = FIXTURES / "autoep_ep2_dp4" / "checkpoint"
    assert "`names=memory`" in refused(ucprun, source, tmp_path / "out", "--to", "safetensors")


@pytest.mark.parametrize("name", [NAMES[0], "autoep_tp2_ep4_dp4", *FOLDED])
def test_a_folder_of_safetensors_keeps_the_experts(name: str, run: Run, tmp_path: Path) -> None:
    """With all states it is as good a source as the checkpoint was."""
    there = tmp_path / "there"
    run("convert", FIXTURES / name / "checkpoint", there, "--to", "safetensors:states=all,names=memory")
    run("convert", there, tmp_path / "back", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "back"))
    assert differences(truth_of(name), describe_states(states), ["parameter"]) == []
    assert states["model.layers.1.mlp.experts.w2"]["fp32"]["ep_num_experts"] == 4
    assert (
        describe(states["model.layers.1.mlp.experts.w2"]["fp32"]["param"])
        == (truth_of(name)["tensors"]["model.layers.1.mlp.experts.w2"]["states"]["fp32"])
    )
