"""megatron.py WORK: conversions from Megatron Core's `torch_dist` beside `cp -r`.

WORK gets a Llama with Megatron Core's names, its masters and moments, once, of as many layers as `--layers` says:
PyTorch saves it, and `ucprun` makes a folder of Megatron Core of it. Rounds and ratios are those of compare.py. Run it
with a Python that has torch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from argparse import Namespace
from pathlib import Path

from compare import ROOT, Contender, is_in_memory, race, report, size_of

HIDDEN, FFN, HEADS, GROUPS, VOCABULARY = 1024, 4096, 16, 8, 32768
TARGETS = (
    "dcp", "deepspeed:dp=4,zero=1,dtype=bf16", "universal", "megatron", "megatron:optimizer=dp_reshardable,tp=4,pp=1",
    "megatron:format=fsdp_dtensor",
)  # fmt: skip


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    rows = (HEADS + 2 * GROUPS) * HIDDEN // HEADS
    of_layer = {
        "self_attention.linear_proj.weight": (HIDDEN, HIDDEN),
        "self_attention.linear_qkv.layer_norm_weight": (HIDDEN,),
        "self_attention.linear_qkv.weight": (rows, HIDDEN),
        "mlp.linear_fc1.layer_norm_weight": (HIDDEN,),
        "mlp.linear_fc1.weight": (2 * FFN, HIDDEN),
        "mlp.linear_fc2.weight": (HIDDEN, FFN),
    }
    ends = {"embedding.word_embeddings.weight": (VOCABULARY, HIDDEN), "output_layer.weight": (VOCABULARY, HIDDEN)}
    layered = {f"decoder.layers.{i}.{name}": shape for i in range(layers) for name, shape in of_layer.items()}
    return ends | layered | {"decoder.final_layernorm.weight": (HIDDEN,)}


def make(ucprun: str, work: Path, layers: int) -> Path:
    """A folder of Megatron Core, as jobs at TP 2, PP 2 and DP 2 save it."""
    folder = work / "megatron"
    if folder.exists():
        return folder
    import torch
    from torch.distributed import checkpoint as dcp

    model = {name: torch.rand(shape) for name, shape in shapes(layers).items()}
    moments = {
        name: {"exp_avg": torch.rand(value.shape), "exp_avg_sq": torch.rand(value.shape), "step": torch.tensor(1.0)}
        for name, value in model.items()
    }
    marks = {"lr_mult": 1.0, "is_expert_parallel": False, "is_decoupled_lr": False, "lr": 0.01}
    dealt: dict[bool, list[str]] = {False: [], True: []}
    for name, value in model.items():
        dealt[value.dim() > 1].append(name)
    groups = [marks | {"wd_mult": float(decays), "params": names} for decays, names in dealt.items()]
    args = Namespace(
        num_layers=layers, hidden_size=HIDDEN, transformer_impl="transformer_engine", bf16=True, swiglu=True,
        tensor_model_parallel_size=2, pipeline_model_parallel_size=2, data_parallel_size=2,
        untie_embeddings_and_output_weights=True, padded_vocab_size=VOCABULARY,
    )  # fmt: skip
    state = {
        "model": model, "optimizer": {"state": moments, "param_groups": groups}, "args": args, "iteration": 1000,
    }  # fmt: skip
    dcp.save(state, checkpoint_id=str(work / "made"), no_dist=True)
    to = ["--to", "megatron:dtype=bf16", "--quiet"]
    subprocess.run([ucprun, "convert", str(work / "made"), str(folder), *to], check=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="forget cached files before each run (needs root)")
    parser.add_argument("--bin", type=Path, default=os.environ.get("UCP_BIN", ROOT / "build/release/bin"))
    arguments = parser.parse_args()
    ucprun = str(arguments.bin / "ucprun")
    arguments.work.mkdir(parents=True, exist_ok=True)
    source = make(ucprun, arguments.work.resolve(), arguments.layers)
    out = arguments.work.resolve() / "out"
    sync = "" if is_in_memory(out) else f" && sync -f {out}"
    racers = [Contender("cp -r, the source", ["sh", "-c", f"cp -r {source} {out}{sync}"])]
    for to in TARGETS:
        racers.append(Contender(f"ucprun, {to}", [ucprun, "convert", str(source), str(out), "--to", to]))
    race(arguments, racers, out)
    report(racers, size_of(source))


if __name__ == "__main__":
    main()
