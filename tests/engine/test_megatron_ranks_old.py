"""Folders of Megatron's ranks with models from before Megatron Core, and with the older values of
`checkpoint_version`. No release that installs makes them, so they are made of Megatron Core's own folders: the names
are exchanged, and the rows put in the order that Megatron-LM's `fix_query_key_value_ordering` undoes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import Run
from fixtures.fingerprints import describe, differences
from test_megatron import trained, truth_of
from test_megatron_ranks import FILE, ITERATION, change, change_all, copied, refusal, weights_of
from universal import describe_states, read_states, tag_folder

PLAIN = "ranks_gpt_plain_optimizer_tp2"
STAGES = "ranks_gpt_tied_pp2_dp2"
HEADS = 4
OF_ENDS = {
    "embedding.word_embeddings.weight": "language_model/embedding/word_embeddings/weight",
    "embedding.position_embeddings.weight": "language_model/embedding/position_embeddings/weight",
    "output_layer.weight": "word_embeddings_for_head/weight",
}
# The first and the last names that Megatron-LM's own models had.
FIRST = {
    "decoder.": "language_model/transformer/", "final_layernorm.": "final_layernorm.",
    "self_attention.linear_qkv.": "attention.query_key_value.", "self_attention.linear_proj.": "attention.dense.",
    "pre_mlp_layernorm.": "post_attention_layernorm.", "mlp.linear_fc1.": "mlp.dense_h_to_4h.",
    "mlp.linear_fc2.": "mlp.dense_4h_to_h.",
}  # fmt: skip
LAST = FIRST | {
    "decoder.": "language_model/encoder/", "final_layernorm.": "final_norm.", "input_layernorm.": "input_norm.",
    "self_attention.linear_qkv.": "self_attention.query_key_value.",
    "self_attention.linear_proj.": "self_attention.dense.", "pre_mlp_layernorm.": "post_attention_norm.",
}  # fmt: skip


def in_order_of(version: int, rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The rows of a rank as the version has them: from [heads, 3, rows of a head]."""
    apart = rows.view(heads, 3, -1, *rows.shape[1:])
    moved = {0: lambda: apart.transpose(0, 1), 1: lambda: apart.transpose(1, 2)}.get(version, lambda: apart)()
    return moved.reshape(rows.shape).clone()


def old_name(name: str, names: dict[str, str]) -> str:
    if name in OF_ENDS:
        return OF_ENDS[name]
    for own, old in names.items():
        name = name.replace(own, old)
    return name


def order_optimizer(state: Any, version: int, heads: int) -> None:
    """The same order for masters and moments, which belong to the parameters."""
    optimizer = state["optimizer"]
    tensors = {name: value for name, value in state["model"].items() if value is not None}
    for group, masters in zip(optimizer["optimizer"]["param_groups"], optimizer["fp32_from_fp16_params"], strict=True):
        decays = group["wd_mult"] != 0
        names = [name for name, value in tensors.items() if (value.dim() > 1) == decays]
        for place, (name, number) in enumerate(zip(names, group["params"], strict=True)):
            if ".linear_qkv." in name:
                held = optimizer["optimizer"]["state"][number]
                masters[place] = in_order_of(version, masters[place], heads)
                for moment in ("exp_avg", "exp_avg_sq"):
                    held[moment] = in_order_of(version, held[moment], heads)


def make_old(version: int, names: dict[str, str], ranks: int = 1) -> Callable[[Any], None]:
    def changed(state: Any) -> None:
        heads = HEADS // ranks
        if "fp32_from_fp16_params" in state["optimizer"]:
            order_optimizer(state, version, heads)
        model: dict[str, Any] = {}
        for name, value in state["model"].items():
            if value is None:
                continue
            *folders, last = old_name(name, names).split("/")
            place = model
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = in_order_of(version, value, heads) if ".linear_qkv." in name else value
        state["model"] = model
        state["checkpoint_version"] = float(version)
        if version == 0:
            del state["checkpoint_version"]
        if version < 2:
            del state["rng_state"]
            state["torch_rng_state"] = torch.arange(8, dtype=torch.uint8)
            arguments = vars(state["args"])
            arguments["model_parallel_size"] = arguments.pop("tensor_model_parallel_size")
            for name in ("transformer_impl", "pipeline_model_parallel_size", "swiglu", "num_experts"):
                del arguments[name]

    return changed


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("names", [FIRST, LAST], ids=["first", "last"])
def test_universal(version: int, names: dict[str, str], run: Run, tmp_path: Path) -> None:
    """Weights, masters and moments, bit for bit what the optimizers of the run held."""
    root = copied(PLAIN, tmp_path)
    change_all(root / ITERATION, make_old(version, names, ranks=2))
    run("convert", root, tmp_path / "out", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "out"))
    assert differences(trained(truth_of(PLAIN)), describe_states(states), ["parameter"]) == []
    run("convert", root, tmp_path / "weights", "--to", "safetensors")
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == weights_of(PLAIN)


def test_stages(run: Run, tmp_path: Path) -> None:
    """With a distributed optimizer, and the last stage's copy of the embedding."""
    root = copied(STAGES, tmp_path)
    change_all(root / ITERATION, make_old(3, LAST))
    run("convert", root, tmp_path / "out", "--to", "universal")
    states = read_states(tag_folder(tmp_path / "out"))
    assert differences(trained(truth_of(STAGES)), describe_states(states), ["parameter"]) == []


@pytest.mark.parametrize("version", range(3))
def test_version_of_a_target(version: int, run: Run, tmp_path: Path) -> None:
    """It is the newest one, and a note says so."""
    root = copied(PLAIN, tmp_path)
    change_all(root / ITERATION, make_old(version, FIRST, ranks=2))
    words = " ".join(run("inspect", root).split())
    assert f"`checkpoint_version` is {version}, and the tensors are those of 3" in words
    assert ("The states of random generators are entries of their own" in words) == (version < 2)
    run("convert", root, tmp_path / "out", "--to", "megatron:states=weights")
    common = torch.load(tmp_path / "out" / ITERATION / "common.pt", weights_only=False)
    assert common["checkpoint_version"] == 3.0


def lose_groups(state: Any) -> None:
    """As before `wd_mult` was saved, with the names of that time."""
    for group in state["optimizer"]["optimizer"]["param_groups"]:
        for key in ("wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr"):
            del group[key]


def test_optimizers_of_older_releases(ucprun: Path, run: Run, tmp_path: Path) -> None:
    root = copied(PLAIN, tmp_path)
    change_all(root / ITERATION, make_old(1, FIRST, ranks=2))
    change_all(root / ITERATION, lose_groups)
    assert "2 groups of parameters, and 2 of them may have" in refusal(ucprun, root)
    run("convert", root, tmp_path / "weights", "--to", "safetensors")
    weights = load_file(tmp_path / "weights" / "model.safetensors")
    assert {name: describe(value) for name, value in weights.items()} == weights_of(PLAIN)


def of_queries(state: Any) -> dict[str, torch.Tensor]:
    return state["model"]["language_model"]["transformer"]


def add_layer_part(state: Any) -> None:
    of_queries(state)["layers.0.inter_attention.dense.weight"] = torch.zeros(4)


def cut_queries(state: Any) -> None:
    for name in ("weight", "bias"):
        own = f"layers.0.attention.query_key_value.{name}"
        of_queries(state)[own] = of_queries(state)[own][:-1].clone()


def arguments(**given: Any) -> Callable[[Any], None]:
    return lambda state: vars(state["args"]).update(given)


DAMAGES: dict[str, tuple[Callable[[Any], None], str]] = {
    "version": (lambda state: state.update(checkpoint_version=1.5), "`checkpoint_version` is 1.5 in"),
    "no number": (lambda state: state.update(checkpoint_version="1"), "`checkpoint_version` is no number in"),
    "heads": (arguments(num_attention_heads=5), "is not of the 5 heads of `args.num_attention_heads`"),
    "no heads": (arguments(num_attention_heads=0), "is not of the 0 heads of `args.num_attention_heads`"),
    "rows of a head": (arguments(kv_channels=3), "is not of the 4 heads of `args.num_attention_heads`"),
    "groups of queries": (arguments(group_query_attention=True), "with as many keys and values as queries"),
    "a tensor": (add_layer_part, "`language_model.transformer.layers.0.inter_attention.dense.weight` in the model of"),
    "ranks": (arguments(model_parallel_size=3), "lacks the folder `mp_rank_02`"),
    "rows": (cut_queries, "`decoder.layers.1.self_attention.linear_qkv.weight` is bfloat16 [24, 16]"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_contradictions(damage: str, ucprun: Path, tmp_path: Path) -> None:
    work, words = DAMAGES[damage]
    root = copied(PLAIN, tmp_path)
    change_all(root / ITERATION, make_old(1, FIRST, ranks=2))
    change_all(root / ITERATION, work)
    assert words in refusal(ucprun, root)


def test_versions_that_differ(ucprun: Path, tmp_path: Path) -> None:
    root = copied(PLAIN, tmp_path)
    change_all(root / ITERATION, make_old(1, FIRST, ranks=2))
    change(root / ITERATION / "mp_rank_01" / FILE, lambda state: state.update(checkpoint_version=2.0))
    assert "`checkpoint_version` is 1.0 in `mp_rank_00/model_optim_rng.pt` and 2.0" in refusal(ucprun, root)
