"""Each spec that cuts, against real shards: every tensor, every rank, element by element."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .declared import SPECS, differences, explain
from .held import TRUTH, Truth

# Where a truth is not the spec's layout: the names, and why. Each must really differ: no entry outlives its cause.
WORDS = {"model.embed_tokens.weight": "the plan cuts the embedding by words, AutoTP leaves it whole"}
ATTENTION = {r"model.layers.\d+.self_attn.*": "the plan cuts no attention; the spec cuts it as AutoTP does elsewhere"}
PRESET = {"lm_head.weight": "the preset leaves the head whole"}
OTHER_LAYOUT: dict[str, dict[str, str]] = {
    "autotp.mixtral.tp2": PRESET,
    "autotp.deepseek_v2.tp2": PRESET | {r"model.layers.\d+.mlp.*_proj.weight": "the preset cuts attention alone"},
    "plan.nemotron_h.tp2": {r"model.layers.\d+.mixer.(?!experts).*": "the plan cuts the experts alone"},
    "plan.llama.tp2": WORDS,
    "plan.gemma2.tp2": WORDS,
    "plan.mixtral.tp2": WORDS,
    "plan.qwen3_moe.tp2": WORDS,
    "plan.deepseek_v2.tp2": WORDS,
    "plan.deepseek_v3.tp2": WORDS | ATTENTION,
    "plan.phimoe.tp2": WORDS | ATTENTION,
}

# Specs that cut, and of which no file of truth/ speaks: what their header must say instead.
NO_SHARDS = {
    "gpt2": "no test",
    "mamba2": "no test",
}

TRUTHS = {path.stem: Truth.load(path) for path in sorted(TRUTH.glob("*.json"))}


def spec_of(name: str) -> Path:
    """`autotp.falcon.grouped.tp2` speaks of `falcon`."""
    source, model, *_ = name.split(".")
    return SPECS / ("megatron_core_gpt.ucp" if source == "megatron_core" else f"{model}.ucp")


@pytest.mark.parametrize("name", TRUTHS)
def test_every_rank_holds_what_the_spec_says(name: str, programs: Path) -> None:
    truth = TRUTHS[name]
    found = differences(explain(programs / "ucpc", spec_of(name), truth), truth)
    patterns = OTHER_LAYOUT.get(name, {})
    explained = {tensor for tensor in found if any(re.fullmatch(pattern, tensor) for pattern in patterns)}
    assert {tensor: how for tensor, how in found.items() if tensor not in explained} == {}
    idle = [pattern for pattern in patterns if not any(re.fullmatch(pattern, tensor) for tensor in found)]
    assert idle == [], "these exceptions are none any more"


# A spec, what is changed in it, the truth that sees it, and a tensor that must be named.
WRONG = [
    ("bloom", "(4 * hidden)@tp(spread)", "4 * (hidden@tp(spread))", "autotp.bloom.tp2", "mlp.dense_h_to_4h.weight"),
    ("megatron_core_gpt", "2 * (ffn@tp)", "(2 * ffn)@tp", "megatron_core.llama.tp2", "mlp.linear_fc1.weight"),
    ("megatron_core_gpt", "[hidden, ffn@tp]", "[hidden@tp, ffn]", "megatron_core.gpt.tp2", "mlp.linear_fc2.weight"),
    ("mixtral", "2 * (ffn@etp)", "(2 * ffn)@etp", "plan.mixtral.tp2", "mlp.experts.gate_up_proj"),
    ("llama", "kv_heads@tp(spread) * group", "(kv_heads * group)@tp(spread)", "autotp.llama.tp3",
     "self_attn.q_proj.weight"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "right", "wrong", "name", "tensor"), WRONG)
def test_a_wrong_cut_is_seen(
    spec: str, right: str, wrong: str, name: str, tensor: str, programs: Path, tmp_path: Path
) -> None:
    """Names, shapes and counts of these specs are right, and `ucpc check` has nothing to say."""
    text = (SPECS / f"{spec}.ucp").read_text()
    assert right in text
    changed = tmp_path / f"{spec}.ucp"
    changed.write_text(text.replace(right, wrong))
    found = differences(explain(programs / "ucpc", changed, TRUTHS[name]), TRUTHS[name])
    assert any(tensor in each for each in found)


def test_every_spec_that_cuts_has_real_shards_or_says_that_it_has_none() -> None:
    shown = {spec_of(name).stem for name in TRUTHS}
    for path in sorted(SPECS.glob("*.ucp")):
        text = path.read_text()
        if not re.search(r"@(tp|ep|etp)\b", text.split("\nucp 1")[1]) or path.stem in shown:
            continue
        header = " ".join(line.removeprefix("//").strip() for line in text.split("\nucp 1")[0].splitlines())
        says = NO_SHARDS.get(path.stem, "no test has real shards")
        assert says in header or "tests/cuts/test_" in header, f"{path.stem}: {header}"
