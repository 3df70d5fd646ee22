"""Folders that we write for Megatron Core: the real package loads them, and its optimizers hold what the saving run
held, at other numbers of ranks too."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import Made, Run, Ways
from fixtures.fingerprints import describe, differences
from fixtures.megatron_core_cases import MEGATRON_CASES, RANKS_CASES, MegatronCase
from fixtures.ranks import RankError, run_ranks
from universal import FIXTURES

ITERATION = "iter_0001000"


@dataclass(frozen=True)
class Resumed:
    """A fixture, the targets of conversions one after the other, and the run that loads the last of them."""

    source: str
    ways: Ways
    tp: int = 1
    pp: int = 1
    dp: int = 1
    sharding: str = "fully_reshardable"
    ep: int = 1

    @property
    def run(self) -> MegatronCase:
        case = (MEGATRON_CASES | RANKS_CASES)[self.source]
        # The padding of the vocabulary is that of the source.
        model = case.model | {"make_vocab_size_divisible_by": case.padded_vocab // self.tp}
        return replace(
            case, name="", model=model, tp=self.tp, pp=self.pp, dp=self.dp, ep=self.ep, sharding=self.sharding,
            container="torch_dist", vp=1,
        )  # fmt: skip


RESUMED = [
    Resumed("llama_tp2_pp2_dp2", ("megatron",), pp=4),
    Resumed("llama_tp2_pp2_dp2", ("megatron:files=3",), tp=2, dp=2),
    Resumed("llama_tp2_pp2_dp2", ("megatron:optimizer=not_distributed",), pp=2, sharding=""),
    Resumed("gpt_tied_tp2_pp2_dp2", ("megatron",), tp=4),
    Resumed("gpt_tied_tp2_pp2_dp2", ("megatron:dtype=fp32",), pp=2, dp=2),
    Resumed("gpt_plain_optimizer_tp2", ("megatron",), pp=2, sharding=""),
    Resumed("gpt_plain_optimizer_tp2", ("megatron:optimizer=fully_reshardable",), tp=2, dp=2),
    Resumed("llama_own_buffers_tp2_pp2_dp2", ("megatron",), dp=2),
    Resumed("gpt_own_buffers_tied_pp2_dp2", ("megatron",), tp=2),
    Resumed("llama_model_space_tp2_pp2_dp2", ("megatron",), pp=2),
    Resumed("gpt_model_space_dp3", ("megatron",), tp=4),
    Resumed("llama_tp2_pp2_dp2", ("universal", "megatron"), tp=2),
    Resumed("llama_tp2_pp2_dp2", ("dcp:style=plain", "megatron:dtype=bf16"), pp=2),
    Resumed("gpt_tied_tp2_pp2_dp2", ("deepspeed:dp=2,zero=1,dtype=bf16", "megatron"), tp=2),
    Resumed("llama_tp2_pp2_dp2", ("safetensors:states=all", "megatron"), dp=2),
    Resumed("mixture_tp2_ep2_dp2", ("megatron:ep=1",), pp=2),
    Resumed("mixture_tp2_ep2_dp2", ("megatron",), dp=4, ep=4),
    Resumed("mixture_tp2_ep2_dp2", ("universal", "megatron"), pp=2, dp=2, ep=2),
    Resumed("mixture_tp2_ep2_dp2", ("megatron:optimizer=not_distributed,ep=1",), tp=2, sharding=""),
    Resumed("mixture_grouped_ep2_dp2", ("megatron:ep=1",), tp=2),
    Resumed("mixture_plain_optimizer_ep2_dp2", ("megatron",), pp=2, dp=2, ep=2, sharding=""),
    Resumed("mixture_plain_optimizer_ep2_dp2", ("megatron:ep=1,optimizer=fully_reshardable",), dp=2),
    Resumed("mixture_own_buffers_tp2_ep2_dp4", ("megatron:ep=1",), pp=2, dp=2),
    Resumed("mixture_own_buffers_ep2_pp2_dp2", ("megatron",), tp=2, dp=2, ep=2),
    Resumed("mixture_own_buffers_pp2_dp2", ("megatron:ep=2",), dp=2, ep=2),
    Resumed("ranks_mixture_tp2_ep2_dp4", ("megatron",), pp=2, dp=2, ep=2),
    Resumed("ranks_mixture_plain_ep2_dp2", ("megatron",), dp=2, ep=2, sharding=""),
    Resumed("ranks_mixture_shared_ep2_pp2_dp2", ("megatron",), tp=2, dp=2, ep=2),
    Resumed("ranks_mixture_grouped_tp2_ep2_dp2", ("megatron",), dp=4, ep=4),
    Resumed("ranks_mixture_virtual_ep2_pp2_dp2", ("megatron:ep=1",), pp=4),
    Resumed("mixture_tp2_ep2_dp2", ("megatron:format=fsdp_dtensor", "megatron"), dp=2, ep=2),
    Resumed("mixture_grouped_ep2_dp2", ("megatron:format=fsdp_dtensor,ep=1", "megatron"), tp=2),
    Resumed("mixture_own_buffers_pp2_dp2", ("megatron:format=fsdp_dtensor", "megatron:ep=2"), dp=2, ep=2),
    Resumed("ranks_llama_tp2_pp2_dp2", ("megatron",), dp=2),
    Resumed("ranks_gpt_tied_pp2_dp2", ("megatron",), tp=4),
    Resumed("ranks_gpt_tied_pp2_dp2", ("deepspeed:dp=2,zero=1,dtype=bf16", "megatron"), pp=2, dp=2),
    Resumed("ranks_gpt_plain_optimizer_pp2", ("megatron",), tp=2, sharding=""),
    Resumed("ranks_llama_virtual_tp2_pp2", ("megatron",), pp=4),
    Resumed("ranks_llama_plain_virtual_pp2", ("universal", "megatron:dtype=bf16"), tp=2, sharding=""),
]


def truth_of(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / "megatron_core" / name / "truth.json").read_text())


def resumed(case: MegatronCase, folder: Path, steps: int = 0) -> dict[str, Any]:
    """The state of a run that loaded the folder: at once, and some steps later."""

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_run import Run as MegatronRun
        from fixtures.megatron_core_truth import gather

        trained = MegatronRun(case)
        left = trained.load(folder)
        loaded = gather(trained)
        trained.case = replace(case, steps=case.steps + steps)
        trained.train(first=case.steps)
        return {"left": left, "loaded": loaded, "after": gather(trained)}

    return run_ranks(case.world, on_rank)


def parameters(truth: dict[str, Any]) -> dict[float, list[str]]:
    """By the weight decay of their groups. Experts have groups of their own where other ranks have copies of them."""
    dealt: dict[float, list[str]] = {}
    for group in truth["groups"]:
        dealt[group["wd_mult"]] = sorted(dealt.get(group["wd_mult"], []) + group["params"])
    return dealt


@pytest.mark.parametrize("plan", RESUMED, ids=str)
def test_resumes(plan: Resumed, made: Made) -> None:
    """Weights, masters, moments, steps and settings, bit for bit those of the memory of the run that saved."""
    truth = truth_of(plan.source)
    folder = made(plan.source, plan.ways)
    assert (folder / "latest_checkpointed_iteration.txt").read_text() == "1000"
    found = resumed(plan.run, folder / ITERATION)
    assert differences(truth, found["loaded"], ["parameter"]) == []
    assert parameters(found["loaded"]) == parameters(truth)
    is_by_fsdp = any("fsdp_dtensor" in way for way in plan.ways)  # Then the seeds are one entry of `common.pt`.
    assert found["left"] == ([] if is_by_fsdp else ["rng_state"])


def test_own_loader_keeps_experts_apart(capfd: pytest.CaptureFixture[str]) -> None:
    """Megatron Core itself does not load the optimizer of experts at an EP of 1: the conversions above are needed."""
    case = replace(MEGATRON_CASES["mixture_tp2_ep2_dp2"], tp=1, dp=1, ep=1)
    with pytest.raises(RankError):
        resumed(case, FIXTURES / "megatron_core" / case.name / "checkpoint" / ITERATION)
    assert "KeyError: 'optimizer'" in capfd.readouterr().err


def test_trains_on(made: Made) -> None:
    """The step after the load is that of the same run that loaded Megatron Core's own folder."""
    case = replace(MEGATRON_CASES["llama_tp2_pp2_dp2"], dp=1)
    own = FIXTURES / "megatron_core" / case.name / "checkpoint" / ITERATION
    truth = resumed(case, own, steps=1)
    found = resumed(case, made(case.name, ("megatron",)) / ITERATION, steps=1)
    assert differences(truth["after"], found["after"], ["parameter"]) == []
    assert differences(found["loaded"], found["after"], ["parameter"]) != []


def test_other_padding(made: Made) -> None:
    """Of the vocabulary, at tensor parallelism that needs fewer rows: Megatron Core cuts what is stored."""
    case = replace(MEGATRON_CASES["llama_tp2_pp2_dp2"], tp=1, pp=1, dp=1)
    assert case.padded_vocab == 56
    found = resumed(case, made(case.name, ("megatron",)) / ITERATION)["loaded"]["tensors"]
    truth = truth_of(case.name)["tensors"]
    weights = load_file(made(case.name, ("safetensors",)) / "model.safetensors")
    for name in truth:
        if weights[name].shape[0] == 64:
            assert found[name]["states"]["weight"] == describe(weights[name][:56]), name
        else:
            assert found[name] == truth[name], name


def entries_in(folder: Path) -> dict[str, list[int]]:
    with (folder / ".metadata").open("rb") as file:
        entries = pickle.load(file).state_dict_metadata
    return {key: list(getattr(entry, "size", [])) for key, entry in entries.items()}


def change_metadata(folder: Path, change: Callable[[Any], None]) -> None:
    with (folder / ".metadata").open("rb") as file:
        metadata = pickle.load(file)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def change_element(folder: Path, key: str = "optimizer.state.param.decoder.final_layernorm.weight") -> None:
    """Of a master, if nothing else is named."""
    with (folder / ".metadata").open("rb") as file:
        places = pickle.load(file).storage_data
    place = next(place for index, place in places.items() if index.fqn == key)
    data = bytearray((folder / place.relative_path).read_bytes())
    values = torch.load(io.BytesIO(data[place.offset : place.offset + place.length]), weights_only=True)
    at = data.find(values.numpy().tobytes(), place.offset)
    data[at + 3] ^= 1
    (folder / place.relative_path).write_bytes(data)


def lose(key: str) -> Callable[[Path], None]:
    def change(metadata: Any) -> None:
        del metadata.state_dict_metadata[key]

    return lambda folder: change_metadata(folder, change)


def change_step(folder: Path) -> None:
    common = torch.load(folder / "common.pt", weights_only=False)
    for group in common["optimizer"]["optimizer"]["param_groups"]:
        group["step"] += 1
    torch.save(common, folder / "common.pt")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "an element": change_element,
    "an object": lose("decoder.layers.self_attention.linear_proj._extra_state/shard_1_4"),
    "a state": lose("optimizer.state.exp_avg.output_layer.weight"),
    "the step": change_step,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen(damage: str, made: Made, tmp_path: Path) -> None:
    """By the tests above."""
    case = replace(MEGATRON_CASES["llama_tp2_pp2_dp2"], pp=1, dp=1)
    folder = Path(shutil.copytree(made(case.name, ("megatron",)) / ITERATION, tmp_path / "damaged"))
    truth = resumed(case, folder, steps=1)
    DAMAGES[damage](folder)
    try:
        found = resumed(case, folder, steps=1)
    except RankError:
        return
    assert differences(truth["after"], found["after"], ["parameter"]) != []


def test_files(made: Made, run: Run, ucprun: Path) -> None:
    """Our own folder is a source as Megatron Core's is: of the same cuts, objects and entries."""
    name = "llama_tp2_pp2_dp2"
    ours = made(name, ("megatron",)) / ITERATION
    theirs = FIXTURES / "megatron_core" / name / "checkpoint" / ITERATION
    assert entries_in(ours) == entries_in(theirs)
    assert json.loads((ours / "metadata.json").read_text()) == json.loads((theirs / "metadata.json").read_text())
    common = [torch.load(folder / "common.pt", weights_only=False) for folder in (ours, theirs)]
    assert common[0] == common[1]
    run("verify", ours.parent)
    command = [str(ucprun), "diff", str(theirs), str(ours)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_force_and_tag(made: Made, run: Run, tmp_path: Path) -> None:
    """Our own folder is replaced by --force, and the tracker file leads to it."""
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
    output = Path(shutil.copytree(made("llama_tp2_pp2_dp2", ("megatron",)), tmp_path / "out"))
    assert "megatron" in run("convert", source, tmp_path / "planned", "--to", "megatron", "--dry-run")
    assert not (tmp_path / "planned").exists()
    run("convert", source, output, "--to", "megatron", "--force", "--tag", "iter_0000007")
    assert {path.name for path in output.iterdir()} == {
        "iter_0000007", "latest_checkpointed_iteration.txt", "ucp_manifest.json",
    }  # fmt: skip
    assert (output / "latest_checkpointed_iteration.txt").read_text() == "7"
    assert torch.load(output / "iter_0000007" / "common.pt", weights_only=False)["iteration"] == 7
    assert "megatron, tag iter_0000007, step 2" in run("inspect", output)


def test_weights_alone(made: Made, run: Run) -> None:
    """A folder without an optimizer, for a job that begins with the weights."""
    folder = made("gpt_tied_tp2_pp2_dp2", ("megatron:states=weights",)) / ITERATION
    with (folder / ".metadata").open("rb") as file:
        entries = pickle.load(file).state_dict_metadata
    assert not any(key.startswith(("optimizer.", "rng_state")) for key in entries)
    assert "optimizer" not in torch.load(folder / "common.pt", weights_only=False)
    case = replace(MEGATRON_CASES["gpt_tied_tp2_pp2_dp2"], pp=2, dp=1)

    def on_rank() -> dict[str, Any]:
        from fixtures.megatron_core_run import Run as MegatronRun
        from fixtures.megatron_core_truth import gather

        trained = MegatronRun(case)
        trained.load_weights(folder)
        return gather(trained)

    found = run_ranks(case.world, on_rank)
    for name, tensor in truth_of(case.name)["tensors"].items():
        assert found["tensors"][name]["states"]["weight"] == tensor["states"]["weight"], name


def refusal(ucprun: Path, source: Path, output: Path, to: str = "megatron", status: int = 2) -> str:
    command = [str(ucprun), "convert", str(source), str(output), "--to", to]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == status, answer.stdout + answer.stderr
    assert not output.exists()
    assert len(answer.stderr) < 900
    return " ".join(answer.stderr.split())


def change_common(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    common = torch.load(folder / "common.pt", weights_only=False)
    change(common)
    torch.save(common, folder / "common.pt")


def give_seeds_to_replicas(folder: Path) -> None:
    """The states of random generators as releases save them with expert parallelism: of 2 data-parallel ranks each."""

    def change(metadata: Any) -> None:
        for index, at in list(metadata.storage_data.items()):
            if not index.fqn.startswith("rng_state/"):
                continue
            place, shape = index.fqn.removeprefix("rng_state/shard_").split("_")
            for replica in range(2):
                key = f"rng_state/shard_{place}.{replica}_{shape}.2"
                file = f"replica{replica}_{at.relative_path}"
                shutil.copy(folder / at.relative_path, folder / file)
                metadata.state_dict_metadata[key] = metadata.state_dict_metadata[index.fqn]
                metadata.storage_data[replace(index, fqn=key)] = replace(at, relative_path=file)
            del metadata.state_dict_metadata[index.fqn], metadata.storage_data[index]

    change_metadata(folder, change)


def groups_of(common: dict[str, Any]) -> list[dict[str, Any]]:
    return list(common["optimizer"]["optimizer"]["param_groups"])


def lose_arguments(common: dict[str, Any]) -> None:
    del common["args"], common["iteration"]
    for group in groups_of(common):
        del group["lr_mult"]


REFUSALS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "what the source lacks": (
        lose_arguments,
        "Megatron Core resumes from what the source does not have: `args`, the arguments of Megatron's training "
        "script; `iteration` (--tag iter_0001000 says it); `lr_mult` of group 0 of the optimizer; `lr_mult` of group "
        "1 of the optimizer; `states=weights` writes the weights alone",
    ),
    "steps": (
        lambda common: groups_of(common)[1].update(step=7.0),
        "the groups of the optimizer are at the steps 2 and 7, and Megatron Core loads one step for all",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals(what: str, ucprun: Path, tmp_path: Path) -> None:
    """One sentence, and nothing is written."""
    source = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint" / ITERATION
    copy = Path(shutil.copytree(source, tmp_path / "saved"))
    change, words = REFUSALS[what]
    change_common(copy, change)
    assert words in refusal(ucprun, copy, tmp_path / "out")


def test_experts_that_cannot_be_shared_out(ucprun: Path, tmp_path: Path) -> None:
    folder = FIXTURES / "megatron_core"
    words = refusal(ucprun, folder / "mixture_tp2_ep2_dp2" / "checkpoint", tmp_path / "out", "megatron:ep=3", 1)
    assert "has 4 experts, which `ep=3` does not share out evenly" in words
    words = refusal(ucprun, folder / "llama_tp2_pp2_dp2" / "checkpoint", tmp_path / "out", "megatron:ep=2", 1)
    assert "the model has no experts to share out" in words


def test_other_names(ucprun: Path, tmp_path: Path) -> None:
    words = refusal(ucprun, FIXTURES / "zero1_dp2" / "checkpoint", tmp_path / "out")
    assert "the tensors are not called as Megatron Core calls them" in words
