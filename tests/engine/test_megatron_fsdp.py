"""Folders of `fsdp_dtensor`, which Megatron-FSDP saved or loads: what its optimizer held, bit for bit."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

from conftest import Made, Run, Ways
from fixtures.fingerprints import describe, differences
from fixtures.megatron_core_cases import FSDP_CASES, MEGATRON_CASES, RANKS_CASES, MegatronCase
from fixtures.ranks import RankError, run_ranks
from test_megatron_write import change_element, give_seeds_to_replicas, lose, resumed
from universal import FIXTURES, describe_states, read_states, tag_folder

STEPS = 2
ITERATION = "iter_0001000"
GATED = "fsdp_llama_tp2_dp2"
ALL_CASES = FSDP_CASES | MEGATRON_CASES | RANKS_CASES
TO_FSDP = "megatron:format=fsdp_dtensor"
UP = "model.module.decoder.layers.1.mlp.linear_fc1.weight_v"


def truth_of(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / "megatron_core" / name / "truth.json").read_text())


def source_of(name: str) -> Path:
    return FIXTURES / "megatron_core" / name / "checkpoint" / ITERATION


@pytest.mark.parametrize("name", FSDP_CASES)
def test_weights(name: str, run: Run, tmp_path: Path) -> None:
    """Whole and with the halves of gated layers joined, layer by layer."""
    run("convert", source_of(name), tmp_path / "out", "--to", "safetensors")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    wanted = {tensor: entry["states"]["fp32"] for tensor, entry in truth_of(name)["tensors"].items()}
    assert {tensor: describe(value) for tensor, value in weights.items()} == wanted


@pytest.mark.parametrize("name", FSDP_CASES)
def test_universal(name: str, run: Run, tmp_path: Path) -> None:
    """Masters, moments and steps, and the settings of the groups."""
    truth = truth_of(name)
    for tensor in truth["tensors"].values():
        del tensor["states"]["weight"]
    run("convert", source_of(name), tmp_path / "out", "--to", "universal")
    folder = tag_folder(tmp_path / "out")
    states = read_states(folder)
    assert differences(truth, describe_states(states), ["parameter"]) == []
    assert states.keys() == truth["tensors"].keys()
    assert {int(files["step"]) for files in states.values()} == {STEPS}
    groups = torch.load(folder / "zero" / "optimizer_state.pt", weights_only=True)["param_groups"]
    assert sorted((group["wd_mult"], group["lr"]) for group in groups) == [(0.0, 0.01), (1.0, 0.01)]


@pytest.mark.parametrize(("name", "tp", "dp"), [(GATED, 1, 2), ("fsdp_gpt_dp3", 2, 1)])
def test_resumes_in_megatron(name: str, tp: int, dp: int, run: Run, tmp_path: Path) -> None:
    """Megatron Core's own loader of `torch_dist` finds every key, and its optimizer then holds what the run held."""
    case = FSDP_CASES[name]
    run("convert", source_of(name), tmp_path / "out", "--to", "megatron")
    model = case.model | {"make_vocab_size_divisible_by": case.padded_vocab // tp}
    found = resumed(replace(case, model=model, tp=tp, dp=dp, container="torch_dist"), tmp_path / "out" / ITERATION)
    assert differences({"tensors": truth_of(name)["stacked"]}, found["loaded"], ["parameter"]) == []


@pytest.mark.parametrize("name", FSDP_CASES)
def test_inspect_and_verify(name: str, run: Run) -> None:
    """The container is dcp's."""
    text = " ".join(run("inspect", source_of(name)).split())
    assert f"dcp, tag {ITERATION}, step {STEPS}" in text
    assert "Megatron-FSDP saved it as `fsdp_dtensor`" in text
    run("verify", source_of(name))


def settings_of(run: Any) -> list[tuple[float, ...]]:
    """Of the groups of a run's optimizer."""
    keys = ("wd_mult", "lr_mult", "lr", "weight_decay", "eps")
    return sorted(tuple(float(group[key]) for key in keys) for group in run.optimizer.param_groups)


def resumed_under_fsdp(case: MegatronCase, folder: Path, steps: int = 0) -> dict[str, Any]:
    """The state of a run under Megatron-FSDP that loaded the folder: at once, and some steps later."""

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_fsdp import FsdpRun, gather

        run = FsdpRun(case)
        besides = run.load(folder)
        loaded = gather(run)
        run.case = replace(case, steps=case.steps + steps)
        run.train(first=case.steps)
        return {"loaded": loaded, "after": gather(run), "besides": besides, "settings": settings_of(run)}

    return run_ranks(case.world, on_rank)


def under_fsdp(source: str, tp: int = 1, dp: int = 1) -> MegatronCase:
    """A run of the model of a fixture, with the padding of its vocabulary."""
    case = ALL_CASES[source]
    model = case.model | {"make_vocab_size_divisible_by": case.padded_vocab // tp}
    return replace(case, name="", model=model, tp=tp, pp=1, dp=dp, ep=1, container="fsdp_dtensor")


RESUMED: list[tuple[str, Ways, int, int]] = [
    ("llama_tp2_pp2_dp2", (TO_FSDP,), 1, 2),
    ("llama_tp2_pp2_dp2", ("universal", TO_FSDP + ",files=3"), 2, 2),
    ("gpt_tied_tp2_pp2_dp2", (TO_FSDP,), 2, 1),
    ("gpt_own_buffers_tied_pp2_dp2", ("deepspeed:dp=2,zero=1,dtype=bf16", TO_FSDP), 1, 3),
    ("ranks_llama_virtual_tp2_pp2", (TO_FSDP,), 1, 1),
    ("mixture_tp2_ep2_dp2", (TO_FSDP + ",ep=1",), 1, 2),
    (GATED, (TO_FSDP,), 1, 3),
    ("fsdp_gpt_dp3", ("megatron", TO_FSDP), 2, 2),
]


@pytest.mark.parametrize(("name", "ways", "tp", "dp"), RESUMED)
def test_resumes_under_fsdp(name: str, ways: Ways, tp: int, dp: int, made: Made) -> None:
    """Megatron-FSDP finds every key, and its optimizer then holds what the saving run held, bit for bit."""
    truth = truth_of(name)
    output = made(name, ways)
    assert (output / "latest_checkpointed_iteration.txt").read_text() == "1000"
    found = resumed_under_fsdp(under_fsdp(name, tp, dp), output / ITERATION)
    held = truth.get("stacked", truth["tensors"])
    assert differences({"tensors": held}, {"tensors": found["loaded"]["stacked"]}, ["parameter"]) == []
    assert found["besides"] == {"checkpoint_version": 3.0, "iteration": 1000, "opt_param_scheduler": {"max_lr": 0.01}}
    assert found["settings"] == [(0.0, 1.0, 0.01, 0.1, 1e-8), (1.0, 1.0, 0.01, 0.1, 1e-8)]


def test_trains_on_under_fsdp(made: Made) -> None:
    """The step after the load is that of the same run that loaded Megatron-FSDP's own folder."""
    case = under_fsdp(GATED, dp=2)
    truth = resumed_under_fsdp(case, source_of(GATED), steps=1)
    found = resumed_under_fsdp(case, made(GATED, (TO_FSDP,)) / ITERATION, steps=1)
    assert differences(truth["after"], found["after"], ["parameter"]) == []
    assert differences(found["loaded"], found["after"], ["parameter"]) != []


def test_experts_one_by_one(run: Run, tmp_path: Path) -> None:
    """Megatron-FSDP's own save of a mixture: both targets take its experts, which have a tensor each."""
    case = under_fsdp("mixture_tp2_ep2_dp2", dp=2)
    saved = tmp_path / "saved" / ITERATION

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_fsdp import FsdpRun, gather

        trained = FsdpRun(case)
        trained.train()
        trained.save(saved)
        return gather(trained)

    truth = {"tensors": run_ranks(case.world, on_rank)["stacked"]}
    stacked = replace(case, container="torch_dist", tp=2)
    stacked = replace(stacked, model=case.model | {"make_vocab_size_divisible_by": case.padded_vocab // 2})
    for ep in (1, 2):
        output = tmp_path / f"ep{ep}"
        run("convert", saved, output, "--to", f"megatron:ep={ep}")
        found = resumed(replace(stacked, ep=ep), output / ITERATION)
        assert differences(truth, found["loaded"], ["parameter"]) == []
    run("convert", saved, tmp_path / "again", "--to", TO_FSDP)
    again = resumed_under_fsdp(replace(case, dp=3), tmp_path / "again" / ITERATION)
    assert differences(truth, {"tensors": again["loaded"]["stacked"]}, ["parameter"]) == []


def entries_in(folder: Path) -> dict[str, list[int]]:
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    return {key: list(getattr(entry, "size", [])) for key, entry in metadata.state_dict_metadata.items()}


@pytest.mark.parametrize("name", FSDP_CASES)
def test_entries(name: str, made: Made, run: Run) -> None:
    """Those of Megatron-FSDP's own folder, and the step that Transformer Engine's optimizer keeps in its groups."""
    ours = entries_in(made(name, (TO_FSDP,)) / ITERATION)
    steps = {key for key in ours if ".param_to_group_meta." in key and key.endswith(".step")}
    theirs = entries_in(source_of(name))
    assert {key: size for key, size in ours.items() if key not in steps} == theirs
    assert len(steps) == sum(key.endswith(".wd_mult") for key in theirs)
    run("verify", made(name, (TO_FSDP,)))
    again = entries_in(made(name, ("megatron", TO_FSDP)) / ITERATION)
    assert again == ours


def test_seeds(made: Made) -> None:
    """The states of random generators of each rank, by stage and tensor-parallel rank."""
    entries = entries_in(made("llama_tp2_pp2_dp2", (TO_FSDP,)) / ITERATION)
    places = {key.split(".")[1] for key in entries if key.startswith("rng_state.")}
    assert places == {"(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"}


def test_seeds_of_replicas_under_fsdp(run: Run, tmp_path: Path) -> None:
    """One of each place is taken."""
    copy = Path(shutil.copytree(source_of("mixture_tp2_ep2_dp2"), tmp_path / "saved"))
    give_seeds_to_replicas(copy)
    run("convert", copy, tmp_path / "out", "--to", TO_FSDP + ",ep=1")
    entries = entries_in(tmp_path / "out" / ITERATION)
    assert {key.split(".")[1] for key in entries if key.startswith("rng_state.")} == {"(0, 0)", "(0, 1)"}


def test_weights_alone_under_fsdp(made: Made) -> None:
    output = made("llama_tp2_pp2_dp2", (TO_FSDP + ",states=weights,dtype=bf16",))
    entries = entries_in(output / ITERATION)
    assert all(key.startswith("model.module.") for key in entries)
    assert entries["model.module.decoder.layers.3.mlp.linear_fc1.weight_v"] == [24, 16]


def lost(key: str) -> tuple[Callable[[Path], None], str]:
    return lose(key), f"Missing key in checkpoint state_dict: {key}."


OF_OPTIMIZER = "optimizer.state.module.module.decoder.layers.1.mlp.linear_fc1."
MOMENT = "optimizer.state.module.module.decoder.final_layernorm.weight.exp_avg"
# With what the loader says; empty: it loads the folder.
LOSSES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an element": (partial(change_element, key=MOMENT), ""),
    "a half": lost(UP),
    "a state": lost(OF_OPTIMIZER + "weight_w.exp_avg"),
    "a step": lost(OF_OPTIMIZER + "weight_v.step"),
    "a setting": lost("optimizer.param_to_group_meta.module.module.decoder.layers.1.mlp.linear_fc1.weight.lr"),
}


@pytest.mark.parametrize("damage", LOSSES)
def test_damage_is_seen(damage: str, made: Made, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By the tests above."""
    folder = Path(shutil.copytree(made(GATED, (TO_FSDP,)) / ITERATION, tmp_path / "damaged"))
    change, words = LOSSES[damage]
    change(folder)
    try:
        found = resumed_under_fsdp(under_fsdp(GATED), folder)
    except RankError:
        assert words
        assert words in capfd.readouterr().err
        return
    assert not words
    held = {"tensors": truth_of(GATED)["stacked"]}
    assert differences(held, {"tensors": found["loaded"]["stacked"]}, ["parameter"]) != []


@pytest.mark.parametrize("setting", ["optimizer=fully_reshardable", "tp=2", "dtype=bf16"])
def test_settings_of_the_other_container(setting: str, ucprun: Path, tmp_path: Path) -> None:
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
    command = [str(ucprun), "convert", str(source), str(tmp_path / "out"), "--to", f"{TO_FSDP},{setting}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert f"`{setting.split('=')[0]}`" in answer.stderr
    assert not (tmp_path / "out").exists()


def lose_half(metadata: Any) -> None:
    del metadata.state_dict_metadata[UP]
    metadata.storage_data = {index: at for index, at in metadata.storage_data.items() if index.fqn != UP}


def shorten_half(metadata: Any) -> None:
    entry = metadata.state_dict_metadata[UP]
    entry.size = torch.Size([12, 16])
    entry.chunks = [ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([12, 16]))]
    metadata.storage_data = {
        index: at for index, at in metadata.storage_data.items() if index.fqn != UP or tuple(index.offset) == (0, 0)
    }


def name_twice(metadata: Any) -> None:
    """A second tensor that has one `module.` more before its name."""
    old = "model.module.decoder.final_layernorm.weight"
    new = old.replace("module.", "module.module.")
    metadata.state_dict_metadata[new] = metadata.state_dict_metadata[old]
    for index, at in list(metadata.storage_data.items()):
        if index.fqn == old:
            metadata.storage_data[replace(index, fqn=new)] = replace(at, relative_path="copy.distcp")
    metadata.planner_data[new] = ("model", new.removeprefix("model."))


DAMAGES: dict[str, tuple[Callable[[Any], None], str]] = {
    "half": (lose_half, "and lacks its other half: both halves of a gated layer are needed"),
    "shape": (shorten_half, "linear_fc1.weight_v`, its other half, has [12, 16]"),
    "name": (name_twice, "two of its entries are `model.decoder.final_layernorm.weight`"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, tmp_path: Path) -> None:
    change, words = DAMAGES[damage]
    folder = Path(shutil.copytree(source_of(GATED), tmp_path / "changed"))
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    command = [str(ucprun), "convert", str(folder), str(tmp_path / "out"), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert words in " ".join(answer.stderr.split())
    assert not (tmp_path / "out").exists()
