"""A folder of `ucprun synth` is a checkpoint to the real engine: it loads every element of it, and trains on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.cases import Case, Mesh
from fixtures.jobs import Job
from fixtures.serve import Engines
from fixtures.synthetic import tensor_bytes

SPECS = Path(__file__).parents[2] / "specs"
GPT = ["layers=4", "hidden=16", "heads=4", "ffn=64", "vocab=101", "grain=16", "seq=16"]
PLAIN = """ucp 1

dim hidden from config.hidden
dim inner  from config.inner
dim blocks from config.blocks
dim words  from config.words

mesh dp

layout plain {
  "tone"                              [3]
  "embed.weight"                      [words, hidden]
  block "blocks.{i: blocks}" {
    "norm.{weight|bias}"              [hidden]
    "up.weight"                       [inner, hidden]
    "up.bias"                         [inner]
    "down.weight"                     [hidden, inner]
    "down.bias"                       [hidden]
  }
  "norm.{weight|bias}"                [hidden]
  "head.weight"                       [words, hidden]
}
"""
PLAIN_SIZES = ["hidden=33", "inner=50", "blocks=2", "words=101"]

GPT_CASE = Case("synthetic_gpt", "", model="gpt", mesh=Mesh(pp=2, tp=2, dp=2), groups="one", fp32_accumulation=True)
PLAIN_CASE = Case("synthetic_plain", "", mesh=Mesh(dp=2), groups="one", stage=3, optimizer="fused",
                  zero={"sub_group_size": 1000})  # fmt: skip

# The case, the strategy, and the order of the parameters where it is not the spec's.
RUNS = {
    "a pipeline at stage 1": (GPT_CASE, "deepspeed:pp=2,tp=2,dp=2,zero=1,optimizer=bf16", False),
    "two groups": (replace(GPT_CASE, groups="decay"), "deepspeed:pp=2,tp=2,dp=2,zero=1,optimizer=bf16", True),
    "stage 3": (PLAIN_CASE, "deepspeed:dp=2,zero=3,sub_group_size=1000", False),
    "stage 2, float16": (
        replace(PLAIN_CASE, stage=2, zero={}, dtype="fp16", optimizer="adamw"),
        "deepspeed:dp=2,zero=2,dtype=fp16",
        False,
    ),
    "universal": (replace(GPT_CASE, mesh=Mesh(pp=2, tp=1, dp=2), optimizer="fused"), "universal", False),
}


def wrong_elements(loaded: dict[str, object]) -> list[str]:
    """Every state that does not hold what synth writes, whole, and zeros where the vocabulary is padded."""
    found = []
    for name, tensor in loaded["tensors"].items():
        for state, has in tensor["states"].items():
            shape = list(tensor["shape"])
            padded = math.prod(shape)
            if name.endswith("word_embeddings.weight"):
                shape[0] = 101
            real = tensor_bytes(name, state, math.prod(shape), has["dtype"])
            whole = real + bytes((padded - math.prod(shape)) * (len(real) // math.prod(shape)))
            if hashlib.sha256(whole).hexdigest() != has["sha256"]:
                found.append(f"{name} {state}")
    return found


def two_groups(spec_order: list[str]) -> str:
    """Matrices, then vectors."""
    matrices = [name for name in spec_order if name.endswith("weight") and "norm" not in name and name[0] != "8"]
    return "\n".join([*matrices, "", *(name for name in spec_order if name not in matrices)])


@pytest.mark.parametrize("case, strategy, is_listed", RUNS.values(), ids=RUNS.keys())
def test_the_engine_loads_it(
    case: Case, strategy: str, is_listed: bool, engines: Engines, run: Callable[..., str], tmp_path: Path
) -> None:
    """All of it is what the definition says, on every rank; and a step is finite."""
    spec, sizes = SPECS / "megatron_deepspeed_gpt.ucp", GPT
    if case.model == "plain":
        spec, sizes = tmp_path / "plain.ucp", PLAIN_SIZES
        spec.write_text(PLAIN)
    further: list[str | Path] = [word for size in sizes for word in ("--set", size)]
    if is_listed:
        layers = [f"{layer}.{part}" for layer in range(3, 7) for part in (
            "input_layernorm.weight", "input_layernorm.bias",
            "self_attention.query_key_value.weight", "self_attention.query_key_value.bias",
            "self_attention.dense.weight", "self_attention.dense.bias",
            "post_attention_layernorm.weight", "post_attention_layernorm.bias",
            "mlp.dense_h_to_4h.weight", "mlp.dense_h_to_4h.bias",
            "mlp.dense_4h_to_h.weight", "mlp.dense_4h_to_h.bias")]  # fmt: skip
        tied = [f"tied_modules.embed.{kind}_embeddings.weight" for kind in ("word", "position")]
        (tmp_path / "order").write_text(two_groups([*tied, *layers, "8.weight", "8.bias"]))
        further += ["--parameters", tmp_path / "order"]
    run("synth", spec, tmp_path / "made", "--to", strategy, *further)
    job = Job(case, load=tmp_path / "made", native=strategy != "universal", further_steps=1)
    answer = engines.ask(job)
    assert len(answer["loaded"]["tensors"]) > 15
    assert wrong_elements(answer["loaded"]) == []
    assert answer["loaded"]["step"] == 1
    assert all(math.isfinite(loss) for loss in answer["losses"])
    assert answer["steps_taken"] == 2
