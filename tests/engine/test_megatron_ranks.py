"""Folders of Megatron's ranks (`--ckpt-format torch`) that contradict themselves or are damaged: one sentence each, and
nothing written."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint import FileSystemReader

from conftest import Run
from fixtures.fingerprints import describe
from test_megatron_refusals import Evil
from universal import FIXTURES, describe_states, read_states, tag_folder

ITERATION = "iter_0001000"
NAME = "ranks_llama_tp2_pp2_dp2"
LAST = "mp_rank_01_001"
FILE = "model_optim_rng.pt"
STATES = "distrib_optim.pt"
GATE = "decoder.layers.0.mlp.linear_fc1.weight"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A root to change."""
    return copied(NAME, tmp_path)


def copied(name: str, place: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "megatron_core" / name / "checkpoint", place / "changed"))


def refusal(ucprun: Path, root: Path, to: str = "universal") -> str:
    """The words of the program, in one line."""
    output = root.parent / "out"
    command = [str(ucprun), "convert", str(root), str(output), "--to", to]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert not output.exists()
    assert len(answer.stderr) < 1000
    return " ".join(answer.stderr.split())


def change(path: Path, work: Callable[[Any], None]) -> None:
    state = torch.load(path, weights_only=False)
    work(state)
    torch.save(state, path)


def change_all(folder: Path, work: Callable[[Any], None]) -> None:
    for path in folder.glob(f"*/{FILE}"):
        change(path, work)


def arguments(**given: Any) -> Callable[[Path], None]:
    """Changes arguments in the files of all ranks."""
    return lambda folder: change_all(folder, lambda state: vars(state["args"]).update(given))


def of_last(work: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda folder: change(folder / LAST / FILE, work)


def lose_model(state: Any) -> None:
    state["model"] = {"language_model": {"pooler": {}}}


def lose_tensor(state: Any) -> None:
    del state["model"]["decoder.layers.1.mlp.linear_fc2.weight"]


def cut_tensor(state: Any) -> None:
    state["model"][GATE] = state["model"][GATE][:-2].clone()


def add_tensor(state: Any) -> None:
    state["model"]["decoder.layers.0.mlp.latent.weight"] = torch.zeros(4)


def unlike(state: Any) -> None:
    state["model"]["decoder.layers.0.input_layernorm.weight"] += 1


def lose_parts(state: Any) -> None:
    vars(state["args"])["virtual_pipeline_model_parallel_size"] = 0
    del state["model"]


def renumber(state: Any) -> None:
    state["model1"] = state.pop("model")


def step_further(state: Any) -> None:
    for group in state["optimizer"]["optimizer"]["param_groups"]:
        group["step"] += 1


def other_rate(state: Any) -> None:
    state["optimizer"]["optimizer"]["param_groups"][0]["lr"] = 0.5


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a folder": (lambda folder: shutil.rmtree(folder / LAST), f"lacks the folder `{LAST}`, and its arguments say 2 "
                 "stages of 2 tensor-parallel ranks"),
    "a folder too many": (lambda folder: shutil.copytree(folder / LAST, folder / "mp_rank_02_001") and None,
                          "has the folder `mp_rank_02_001`"),
    "a file": (lambda folder: (folder / LAST / FILE).unlink(), f"{LAST}/{FILE}"),
    "tensor-parallel ranks": (arguments(tensor_model_parallel_size=4), "lacks the folder `mp_rank_02_000`"),
    "stages": (arguments(pipeline_model_parallel_size=1), "lacks the folder `mp_rank_00`"),
    "no ranks": (arguments(pipeline_model_parallel_size=0), "`args.pipeline_model_parallel_size` is 0"),
    "many ranks": (arguments(tensor_model_parallel_size=10**18), "is 1000000000000000000"),
    "layers": (arguments(num_layers=5), "`args.num_layers` is 5"),
    "vocabulary": (arguments(padded_vocab_size=128), "`args.padded_vocab_size` is 128"),
    "no parts": (lambda folder: change_all(folder, lose_parts), "`args.virtual_pipeline_model_parallel_size` is 0"),
    "a first part": (of_last(renumber), "holds 1 parts of the model, and `model0` is not among them"),
    "parts": (arguments(virtual_pipeline_model_parallel_size=2), "holds 1 parts of the model"),
    "experts": (arguments(num_experts=4), "`args.num_experts` is 4, and no rank has a tensor of experts"),
    "arguments of one rank": (of_last(lambda state: vars(state["args"]).update(hidden_size=8)),
                              f"`args.hidden_size` is 8 in `{LAST}/{FILE}`"),
    "no arguments": (lambda folder: change_all(folder, lambda state: state.pop("args")), "has no `args`"),
    "iterations": (of_last(lambda state: state.update(iteration=999)), "`iteration` is 1000 in "
                   f"`mp_rank_00_000/{FILE}` and 999 in `{LAST}/{FILE}`"),
    "no iteration": (of_last(lambda state: state.pop("iteration")), "`iteration` is 1000 in "
                     f"`mp_rank_00_000/{FILE}` and missing in `{LAST}/{FILE}`"),
    "version": (lambda folder: change_all(folder, lambda state: state.update(checkpoint_version=1.0)),
                "`checkpoint_version` is 1 in"),
    "no version": (lambda folder: change_all(folder, lambda state: state.pop("checkpoint_version")),
                   "`checkpoint_version` is 0 in"),
    "an older model": (lambda folder: change_all(folder, lose_model), "`language_model.pooler` in the model of"),
    "no model": (of_last(lambda state: state.update(model={})), "holds no tensors of a model, and stages without "
                 "layers are not read"),
    "a tensor": (of_last(lose_tensor), "`decoder.layers.mlp.linear_fc2.weight` is not in layer 3 in the files of "
                 "tensor-parallel rank 1"),
    "a shape": (of_last(cut_tensor), f"`{GATE}` is bfloat16 [22, 16] in `{LAST}/{FILE}`"),
    "an unknown tensor": (of_last(add_tensor), "`decoder.layers.0.mlp.latent.weight`, and it is not known how ranks "
                          "share that"),
    "a replica": (of_last(unlike), "decoder.layers.self_attention.linear_qkv.layer_norm_weight"),
    "steps": (of_last(step_further), f"in `{LAST}/{FILE}`; these files are not of one checkpoint"),
    "settings": (of_last(other_rate), f"and 0.5 in `{LAST}/{FILE}`"),
    "a root": (lambda folder: torch.save([1], folder / LAST / FILE), "does not hold a dict"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, copy: Path) -> None:
    work, words = DAMAGES[damage]
    work(copy / ITERATION)
    assert words in refusal(ucprun, copy)


def not_gated(state: Any) -> None:
    vars(state["args"]).update(swiglu=True)


def test_gate_of_a_layer_without_one(ucprun: Path, tmp_path: Path) -> None:
    root = copied("ranks_gpt_tied_pp2_dp2", tmp_path)
    change_all(root / ITERATION, not_gated)
    assert "`args.swiglu` is true" in refusal(ucprun, root)


def test_tracker_that_names_nothing(ucprun: Path, copy: Path) -> None:
    (copy / "latest_checkpointed_iteration.txt").write_text("1001")
    assert "names `iter_0001001`, and there is no folder" in refusal(ucprun, copy)


def weights_of(name: str) -> dict[str, Any]:
    truth = json.loads((FIXTURES / "megatron_core" / name / "truth.json").read_text())
    return {tensor: entry["states"]["weight"] for tensor, entry in truth["tensors"].items()}


def shorten(state: Any) -> None:
    for vectors in state[0].values():
        vectors["exp_avg"] = vectors["exp_avg"][:-1].clone()


def lose_masters(state: Any) -> None:
    for vectors in state[0].values():
        del vectors["param"]


def add_masters(state: Any) -> None:
    for vectors in state[0].values():
        vectors["master_param"] = vectors["param"].clone()


def states(work: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda folder: change(folder / LAST / STATES, work)


UNREAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "states": (lambda folder: (folder / LAST / STATES).unlink(), f"`{LAST}/{STATES}` is missing"),
    "elements": (states(shorten), f"the state `exp_avg` in `{LAST}/{STATES}` is ["),
    "masters": (states(lose_masters), f"`{LAST}/{STATES}` has no masters"),
    "masters twice": (states(add_masters), f"`{LAST}/{STATES}` has the state `fp32` twice"),
    "buckets apart": (states(lambda state: state.pop("buckets_coalesced")), "does not say that its buckets are joined"),
    "buffers": (states(lambda state: state.pop(0)), "has 0 buffers of part 0"),
    "a number of buckets": (arguments(ddp_num_buckets=3), "not known with `args.ddp_num_buckets`"),
    "no optimizer": (lambda folder: change_all(folder, lambda state: state.pop("optimizer")), "holds no optimizer"),
}  # fmt: skip


def expect_weights_alone(ucprun: Path, run: Run, copy: Path, name: str, words: str) -> None:
    """The reason is in the refusal, and the weights can be had all the same."""
    assert words in refusal(ucprun, copy)
    run("convert", copy, copy.parent / "weights", "--to", "safetensors")
    weights = load_file(copy.parent / "weights" / "model.safetensors")
    assert {key: describe(value) for key, value in weights.items()} == weights_of(name)


@pytest.mark.parametrize("damage", UNREAD)
def test_optimizers_that_are_not_read(damage: str, ucprun: Path, run: Run, copy: Path) -> None:
    work, words = UNREAD[damage]
    work(copy / ITERATION)
    expect_weights_alone(ucprun, run, copy, NAME, words)


def lose_state(state: Any) -> None:
    del state["optimizer"]["optimizer"]["state"][0]


def lose_parameter(state: Any) -> None:
    state["optimizer"]["optimizer"]["param_groups"][0]["params"].pop()


def turn_state(state: Any) -> None:
    held = state["optimizer"]["optimizer"]["state"][0]
    held["exp_avg"] = held["exp_avg"].reshape(-1)


def other_step(state: Any) -> None:
    state["optimizer"]["optimizer"]["state"][0]["step"] += 1


PLAIN: dict[str, tuple[Callable[[Any], None], str]] = {
    "a state": (lose_state, "has no state of parameter 0"),
    "a parameter": (lose_parameter, "group 0 of the optimizer in"),
    "a shape": (turn_state, "is not a tensor of ["),
    "a step": (other_step, "the optimizer's step is"),
    "masters": (lambda state: state["optimizer"].pop("fp32_from_fp16_params"), "has no master of"),
}


@pytest.mark.parametrize("damage", PLAIN)
def test_plain_optimizers(damage: str, ucprun: Path, tmp_path: Path) -> None:
    work, words = PLAIN[damage]
    root = copied("ranks_gpt_plain_optimizer_pp2", tmp_path)
    change(root / ITERATION / "mp_rank_00_001" / FILE, work)
    assert words in refusal(ucprun, root)


def test_release(run: Run, copy: Path) -> None:
    """A model without a training, as Megatron's tools make it."""
    (copy / ITERATION).rename(copy / "release")
    (copy / "latest_checkpointed_iteration.txt").write_text("release")
    change_all(copy / "release", lambda state: [state.pop(key) for key in ("optimizer", "rng_state")] and None)
    for path in copy.rglob(STATES):
        path.unlink()
    run("convert", copy, copy.parent / "weights", "--to", "safetensors")
    weights = load_file(copy.parent / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == weights_of(NAME)


def test_nothing_is_executed(ucprun: Path, copy: Path) -> None:
    """An object that would run a command when it is loaded is left out, and named."""
    change_all(copy / ITERATION, lambda state: state.update(trap=Evil()))
    output = copy.parent / "out"
    command = [str(ucprun), "convert", str(copy), str(output), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copy)
    assert answer.returncode == 0, answer.stderr
    assert "system" in answer.stdout + answer.stderr
    assert not list(copy.rglob("executed"))
    assert not any(b"system" in file.read_bytes() for file in output.rglob("*.pt"))


def add_extras(state: Any) -> None:
    """As Transformer Engine has them: a tensor of each module, before the tensors of its parameters."""
    modules = dict.fromkeys(name.rpartition(".")[0] for name in state["model"])
    for module in ["decoder.layers.0.self_attention.core_attention", *modules]:
        state["model"][f"{module}._extra_state"] = torch.empty(0, dtype=torch.uint8)
    state["model"] = dict(sorted(state["model"].items(), key=lambda item: not item[0].endswith("._extra_state")))


def test_extra_states(run: Run, copy: Path) -> None:
    """They change no weight, and Megatron Core's loader finds those that it asks for."""
    change_all(copy / ITERATION, add_extras)
    run("convert", copy, copy.parent / "weights", "--to", "safetensors")
    weights = load_file(copy.parent / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == weights_of(NAME)
    run("convert", copy, copy.parent / "out", "--to", "megatron")
    keys = FileSystemReader(copy.parent / "out" / ITERATION).read_metadata().state_dict_metadata
    extras = {key for key in keys if "._extra_state/" in key}
    assert "decoder.final_layernorm._extra_state/shard_0_1" in extras
    assert {f"decoder.layers.self_attention.core_attention._extra_state/shard_{i}_4" for i in (0, 2)} < extras
    assert {f"decoder.layers.mlp.linear_fc1._extra_state/shard_{i}_4" for i in range(4)} < extras
    assert not any(key.startswith("output_layer") for key in extras)


def lose_decoupled(state: Any) -> None:
    for group in state["optimizer"]["optimizer"]["param_groups"]:
        del group["is_decoupled_lr"]


def test_groups_of_older_releases(run: Run, copy: Path) -> None:
    """Groups without `is_decoupled_lr` are the same groups on all ranks."""
    run("convert", copy, copy.parent / "wanted", "--to", "universal")
    change_all(copy / ITERATION, lose_decoupled)
    run("convert", copy, copy.parent / "out", "--to", "universal")
    wanted = read_states(tag_folder(copy.parent / "wanted"))
    assert describe_states(read_states(tag_folder(copy.parent / "out"))) == describe_states(wanted)


def test_weights_of_an_unsaid_dtype(ucprun: Path, run: Run, tmp_path: Path) -> None:
    """Without it, masters would be written as the weights of a training in float32, which a run in bf16 cannot load."""
    run(
        "convert",
        FIXTURES / "megatron_core" / "ranks_llama_plain_virtual_pp2" / "checkpoint",
        tmp_path / "universal",
        "--to",
        "universal",
    )
    assert "`dtype=bf16` says it" in refusal(ucprun, tmp_path / "universal", "megatron")


def train_in_float32(state: Any) -> None:
    state["model"] = {name: value.float() for name, value in state["model"].items() if value is not None}
    state["optimizer"] = state["optimizer"]["optimizer"]
    state["optimizer"]["param_groups"][0]["trap"] = Evil()


def test_places_in_an_optimizer_without_masters(ucprun: Path, tmp_path: Path) -> None:
    """A note names the place where the value stood."""
    root = copied("ranks_gpt_plain_optimizer_pp2", tmp_path)
    change_all(root / ITERATION, train_in_float32)
    command = [str(ucprun), "convert", str(root), str(tmp_path / "out"), "--to", "universal"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "`optimizer.param_groups.0.trap`" in " ".join((answer.stdout + answer.stderr).split())


@pytest.mark.parametrize("seed", range(24))
def test_damaged_bytes(seed: int, ucprun: Path, copy: Path) -> None:
    """Each is an answer or a refusal in one sentence, and never a crash."""
    chance = random.Random(seed)
    path = chance.choice(sorted((copy / ITERATION).glob("*/*.pt")))
    content = bytearray(path.read_bytes())
    pickled = content.find(b"data.pkl")
    for _ in range(3):
        content[chance.randrange(pickled, pickled + 4000)] = chance.randrange(256)
    path.write_bytes(content[: chance.randrange(len(content))] if seed % 4 == 0 else content)
    command = [str(ucprun), "inspect", str(copy)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode in (0, 2), answer.stderr
    assert answer.returncode == 0 or len(answer.stderr.splitlines()) <= 2
