"""Folders of Megatron's ranks with experts that contradict themselves, and what else is theirs alone."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint import FileSystemReader

from conftest import Run
from test_megatron_ranks import (
    FILE,
    ITERATION,
    STATES,
    arguments,
    change,
    change_all,
    copied,
    expect_weights_alone,
    refusal,
)
from universal import describe_states, read_states, tag_folder

NAME = "ranks_mixture_tp2_ep2_dp4"
GROUPED = "ranks_mixture_grouped_tp2_ep2_dp2"
PLAIN = "ranks_mixture_plain_ep2_dp2"
LAST = "mp_rank_01_001"
EXPERT = "decoder.layers.1.mlp.experts.local_experts.1.linear_fc2.weight"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A root to change."""
    return copied(NAME, tmp_path)


def of_last(work: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda folder: change(folder / LAST / FILE, work)


def lose_expert(state: Any) -> None:
    del state["model"][EXPERT]


def renumber_expert(state: Any) -> None:
    state["model"][EXPERT.replace("experts.1", "experts.2")] = state["model"].pop(EXPERT)


def cut_expert(state: Any) -> None:
    state["model"][EXPERT] = state["model"][EXPERT][:-1].clone()


def double_folder(folder: Path) -> None:
    """Expert-parallel rank 0 in the place of rank 1."""
    shutil.copytree(folder / "mp_rank_00_000", folder / "mp_rank_00_001", dirs_exist_ok=True)


def unlike(state: Any) -> None:
    """A tensor that both expert-parallel ranks have."""
    state["model"]["decoder.layers.0.mlp.router.weight"] += 1


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a folder": (lambda folder: shutil.rmtree(folder / LAST), f"lacks the folder `{LAST}`, and its arguments say 1 "
                 "stages of 2 tensor-parallel ranks and 2 expert-parallel ranks"),
    "stages": (arguments(pipeline_model_parallel_size=2, expert_model_parallel_size=1),
               "`decoder.layers.mlp.experts.experts."),
    "expert-parallel ranks": (arguments(expert_model_parallel_size=4), "lacks the folder `mp_rank_00_002`"),
    "shares": (arguments(num_experts=5), "`args.num_experts` is 5"),
    "fewer experts": (arguments(num_experts=2), "and a rank has 1 of the 2 experts that the arguments say"),
    "more experts": (arguments(num_experts=8), "of tensor-parallel rank 0, with expert 2, and"),
    "a copy of a folder": (double_folder, f"`mp_rank_00_001/{STATES}` has states that expert-parallel rank 0 alone "
                           "saves"),
    "many experts": (arguments(num_experts=10**18), "`args.num_experts` is 1000000000000000000"),
    "more than are read": (arguments(num_experts=2**20), "`args.num_experts` is 1048576 in"),
    "no modules": (arguments(transformer_impl=None), "`args.transformer_impl` is `` in"),
    "other modules": (arguments(transformer_impl="other"), "`args.transformer_impl` is `other` in"),
    "no number": (arguments(num_experts=None), "and a rank has 0 of the 0 experts that the arguments say"),
    "another cut": (arguments(expert_tensor_parallel_size=1), "`args.expert_tensor_parallel_size` is 1 and "
                    "`args.tensor_model_parallel_size` 2"),
    "of one rank": (of_last(lambda state: vars(state["args"]).update(num_experts=8)), "`args.num_experts` is 8 in"),
    "an expert": (of_last(lose_expert), "`decoder.layers.mlp.experts.experts.linear_fc2.weight` is not in layer 1 in "
                  "the files of tensor-parallel rank 1, with expert 3"),
    "an expert too many": (of_last(renumber_expert), "and a rank has 2 of the 4 experts"),
    "a shape": (of_last(cut_expert), f"`{EXPERT}` is bfloat16 [15, 4] in `{LAST}/{FILE}`"),
    "a replica": (of_last(unlike), "decoder.layers.mlp.router.weight"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, copy: Path) -> None:
    work, words = DAMAGES[damage]
    work(copy / ITERATION)
    assert words in refusal(ucprun, copy)


def lose_rows(state: Any) -> None:
    name = "decoder.layers.0.mlp.experts.weight1"
    state["model"][name] = state["model"][name][:, :-1].clone()


def test_matrix_of_all_experts(ucprun: Path, tmp_path: Path) -> None:
    root = copied(GROUPED, tmp_path)
    change_all(root / ITERATION, lose_rows)
    assert "`decoder.layers.0.mlp.experts.weight1` has the shape [16, 15], which the 2 experts" in refusal(ucprun, root)


def states(folder: str, work: Callable[[Any], Any]) -> Callable[[Path], None]:
    def changed(root: Path) -> None:
        state = torch.load(root / folder / STATES, weights_only=False)
        torch.save(work(state) or state, root / folder / STATES)

    return changed


def shorten(state: Any) -> None:
    for vectors in state[1][0].values():
        vectors["exp_avg"] = vectors["exp_avg"][:-1].clone()


def lose_rest(state: Any) -> None:
    state[0] = None


def exchange(state: Any) -> None:
    """The masters of experts in the places of one another: as many elements, and the rounding of no weight."""
    for vectors in state[1][0].values():
        vectors["param"] = vectors["param"].flip(0)


UNREAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "elements": (states(LAST, shorten), f"the state `exp_avg` in `{LAST}/{STATES}` is ["),
    "the rest": (states("mp_rank_00_000", lose_rest), "does not say that its buckets are joined"),
    "experts": (states(LAST, lambda state: [state[0]]), "has the states of 1 optimizers, and the rank's file has 2"),
    "one optimizer": (states(LAST, lambda state: state[1]), "has the states of 1 optimizers"),
    "three optimizers": (lambda folder: change_all(folder, lambda state: state["optimizer"].append({})),
                         "holds 3 optimizers, and one or two are read"),
}  # fmt: skip


@pytest.mark.parametrize("damage", UNREAD)
def test_optimizers_that_are_not_read(damage: str, ucprun: Path, run: Run, copy: Path) -> None:
    work, words = UNREAD[damage]
    work(copy / ITERATION)
    expect_weights_alone(ucprun, run, copy, NAME, words)


def test_masters_in_other_places(ucprun: Path, copy: Path) -> None:
    states(LAST, exchange)(copy / ITERATION)
    words = refusal(ucprun, copy)
    assert "64 of the 64 weights of `decoder.layers.mlp.experts.experts.linear_fc1.weight`" in words


def test_state_of_an_expert_that_is_missing(ucprun: Path, tmp_path: Path) -> None:
    root = copied(PLAIN, tmp_path)
    change(root / ITERATION / "mp_rank_00_001" / FILE, lambda state: state["optimizer"][1]["optimizer"]["state"].pop(3))
    assert "has no state of parameter 3, which is `decoder.layers.0.mlp.experts." in refusal(ucprun, root)


def lose_steps(state: Any) -> None:
    for held in state["optimizer"][1]["optimizer"]["state"].values():
        del held["step"]


@pytest.mark.parametrize("folder", ["mp_rank_00_000", "mp_rank_00_001"])
def test_steps_that_are_missing(folder: str, ucprun: Path, tmp_path: Path) -> None:
    root = copied(PLAIN, tmp_path)
    change(root / ITERATION / folder / FILE, lose_steps)
    words = refusal(ucprun, root)
    assert "the state of `decoder.layers." in words and f"in `{folder}/{FILE}` has no `step`" in words


def number_processes(root: Path) -> list[Path]:
    """As Megatron's script has it: the process that saved a file is in its arguments."""
    paths = sorted(root.glob(f"*/{FILE}"))
    for i, path in enumerate(paths):
        change(path, lambda state, i=i: vars(state["args"]).update(rank=i))
    return paths


def test_copy_of_a_folder_of_another_rank(ucprun: Path, run: Run, tmp_path: Path) -> None:
    root = copied("ranks_llama_plain_virtual_pp2", tmp_path)
    paths = number_processes(root / ITERATION)
    run("inspect", root)
    for path in paths:
        change(path, lambda state: vars(state["args"]).update(rank=0))
    run("inspect", root)  # As a tool that converts models writes it.
    other = copied("ranks_llama_tp2_pp2_dp2", tmp_path / "other")
    paths = number_processes(other / ITERATION)
    shutil.copy(paths[0], paths[2])
    words = refusal(ucprun, other)
    assert "`args.rank` is 0 in `mp_rank_00_000/" in words and "and in `mp_rank_01_000/" in words


def group_experts(state: Any) -> None:
    """The same experts under the names of Transformer Engine's grouped ones, with the extra state of each module."""
    model = {}
    for name, value in state["model"].items():
        before, local, rest = name.partition(".local_experts.")
        number, _, linear = rest.partition(".")
        if not local or not rest.endswith("._extra_state"):
            model[f"{before}.{linear}{number}" if local else name] = value
    for layer, linear in product(range(2), ("linear_fc1", "linear_fc2")):
        model[f"decoder.layers.{layer}.mlp.experts.{linear}._extra_state"] = torch.empty(0, dtype=torch.uint8)
    state["model"] = model


def reorder(folder: Path) -> None:
    """As a module of grouped experts has them: both first matrices of a layer before both second ones.

    The last parameter stands first in a buffer. All have multiples of 64 elements, so that nothing is between them.
    """
    places = list(product(range(2), range(2), ("linear_fc1", "linear_fc2")))  # Layer, expert, linear.
    grouped = sorted(places, key=lambda place: (place[0], place[2], place[1]))
    sizes = [{"linear_fc1": 128, "linear_fc2": 64}[linear] for _, _, linear in reversed(places)]
    for path in folder.glob(f"*/{STATES}"):
        state = torch.load(path, weights_only=False)
        for vectors in state[1][0].values():
            for name in ("param", "exp_avg", "exp_avg_sq"):
                parts = dict(zip(reversed(places), vectors[name].split(sizes), strict=True))
                vectors[name] = torch.cat([parts[place] for place in reversed(grouped)])
        torch.save(state, path)

    def sort(state: Any) -> None:
        names = list(state["model"])
        of_experts = [name for name in names if ".experts." in name and "_extra_state" not in name]
        ordered = iter(sorted(of_experts))
        state["model"] = {
            name: state["model"][name] for name in (next(ordered) if old in of_experts else old for old in names)
        }

    change_all(folder, sort)


def test_names_of_grouped_experts(run: Run, copy: Path) -> None:
    """As Transformer Engine has them, which does not run without a GPU: the file is made of another."""
    run("convert", copy, copy.parent / "wanted", "--to", "universal")
    change_all(copy / ITERATION, group_experts)
    reorder(copy / ITERATION)
    run("convert", copy, copy.parent / "out", "--to", "universal")
    wanted = read_states(tag_folder(copy.parent / "wanted"))
    assert describe_states(read_states(tag_folder(copy.parent / "out"))) == describe_states(wanted)
    run("convert", copy, copy.parent / "torch_dist", "--to", "megatron:states=weights")
    folder = next((copy.parent / "torch_dist").glob("iter_*"))
    keys = FileSystemReader(folder).read_metadata().state_dict_metadata
    of_experts = "decoder.layers.mlp.experts.experts.linear_fc"
    places = product((1, 2), range(2), range(4))
    wanted_keys = {f"{of_experts}{i}._extra_state/shard_{layer}.{expert}_2.4" for i, layer, expert in places}
    assert {key for key in keys if key.startswith(of_experts) and "_extra_state" in key} == wanted_keys


def add_bias(state: Any) -> None:
    """As `--moe-router-enable-expert-bias` has it: a buffer, which the optimizer does not step."""
    model = {}
    for name, value in state["model"].items():
        model[name] = value
        if name.endswith("mlp.router.weight"):
            model[name.replace("weight", "expert_bias")] = torch.arange(4, dtype=torch.float32)
    state["model"] = model


@pytest.mark.parametrize("name", [NAME, PLAIN])
def test_bias_of_routers(name: str, run: Run, tmp_path: Path) -> None:
    """It has no place among the states, and its numbers are kept."""
    root = copied(name, tmp_path)
    run("convert", root, tmp_path / "wanted", "--to", "universal")
    change_all(root / ITERATION, add_bias)
    run("convert", root, tmp_path / "out", "--to", "universal")
    wanted = read_states(tag_folder(tmp_path / "wanted"))
    assert describe_states(read_states(tag_folder(tmp_path / "out"))) == describe_states(wanted)
    run("convert", root, tmp_path / "weights", "--to", "safetensors")
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    assert torch.equal(weights["decoder.layers.mlp.router.expert_bias"], torch.arange(4.0).repeat(2, 1))


@pytest.mark.parametrize("seed", range(12))
def test_damaged_bytes(seed: int, ucprun: Path, tmp_path: Path) -> None:
    """Each is an answer or a refusal in one sentence, and never a crash."""
    copy = copied((NAME, GROUPED)[seed % 2], tmp_path)
    chance = random.Random(seed)
    path = chance.choice(sorted((copy / ITERATION).glob("*/*.pt")))
    content = bytearray(path.read_bytes())
    pickled = content.find(b"data.pkl")
    for _ in range(3):
        content[chance.randrange(pickled, pickled + 4000)] = chance.randrange(256)
    path.write_bytes(content)
    command = [str(ucprun), "inspect", str(copy)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode in (0, 2), answer.stderr
    assert answer.returncode == 0 or len(answer.stderr.splitlines()) <= 2
