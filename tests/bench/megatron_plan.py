"""megatron_plan.py WORK: how long the plan of a trillion parameters takes from the files of Megatron's ranks.

WORK gets, once, what 128 model-parallel ranks at TP 8 and PP 16 save with `--ckpt-format torch` and a distributed
optimizer: 256 files whose headers `torch.save` writes, with holes in place of elements, so that they take 28 MB of a
file system with sparse files. Then `ucpc plan` for TP 4 and PP 32, and for any ranks. Run it with a Python that has
torch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from argparse import Namespace
from pathlib import Path
from statistics import median

import torch
from measure import peak_memory
from torch._subclasses.fake_tensor import FakeTensorMode

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build" / "release" / "bin")) / "ucpc"
LAYERS, HIDDEN, HEADS, FFN, VOCABULARY = 128, 25600, 160, 102400, 51200
TP, PP, DP = 8, 16, 8
TARGETS = ("megatron:optimizer=dp_reshardable,tp=4,pp=32", "megatron", "dcp")


def shapes(stage: int) -> dict[str, tuple[int, ...]]:
    """Those of a rank's module, in its order."""
    of_layer = {
        "self_attention.linear_proj.weight": (HIDDEN, HIDDEN // TP),
        "self_attention.linear_qkv.layer_norm_weight": (HIDDEN,),
        "self_attention.linear_qkv.weight": (3 * HIDDEN // TP, HIDDEN),
        "mlp.linear_fc1.layer_norm_weight": (HIDDEN,),
        "mlp.linear_fc1.weight": (FFN // TP, HIDDEN),
        "mlp.linear_fc2.weight": (HIDDEN, FFN // TP),
    }
    found = {"embedding.word_embeddings.weight": (VOCABULARY // TP, HIDDEN)} if stage == 0 else {}
    for layer in range(LAYERS // PP):
        found |= {f"decoder.layers.{layer}.{name}": shape for name, shape in of_layer.items()}
    if stage == PP - 1:
        found |= {"decoder.final_layernorm.weight": (HIDDEN,), "output_layer.weight": (VOCABULARY // TP, HIDDEN)}
    return found


def save_rank(folder: Path, stage: int) -> None:
    folder.mkdir(parents=True)
    args = Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, padded_vocab_size=VOCABULARY,
        make_vocab_size_divisible_by=128, transformer_impl="transformer_engine", bf16=True, swiglu=False,
        tensor_model_parallel_size=TP, pipeline_model_parallel_size=PP, data_parallel_size=DP,
        untie_embeddings_and_output_weights=True, use_distributed_optimizer=True,
    )  # fmt: skip
    marks = {"lr_mult": 1.0, "is_expert_parallel": False, "is_decoupled_lr": False, "lr": 0.01, "step": 1}
    with FakeTensorMode():
        model = {name: torch.empty(shape, dtype=torch.bfloat16) for name, shape in shapes(stage).items()}
        # All are multiples of 64 elements, so that nothing stands between them.
        elements = sum(value.numel() for value in model.values())
        vectors = {name: torch.empty(elements) for name in ("param", "exp_avg", "exp_avg_sq")}
    groups = [marks | {"wd_mult": 1.0}, marks | {"wd_mult": 0.0}]
    state = {
        "args": args, "checkpoint_version": 3.0, "iteration": 1000, "model": model,
        "optimizer": {"optimizer": {"param_groups": groups}},
    }  # fmt: skip
    buffer = {(torch.bfloat16, torch.float32): vectors | {"numel_unpadded": elements}}
    with torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(state, folder / "model_optim_rng.pt")
        torch.save({"buckets_coalesced": True, 0: buffer}, folder / "distrib_optim.pt")


def make(folder: Path) -> Path:
    if not folder.exists():
        for stage in range(PP):
            for rank in range(TP):
                save_rank(folder / f"mp_rank_{rank:02}_{stage:03}", stage)
    return folder


def plan(source: Path, to: str, file: Path) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and bytes of memory of one run of the program."""
    begin = time.perf_counter()
    command = [str(PROGRAM), "plan", "--from", str(source), "--to", to, "-o", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        memory = peak_memory(process)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - begin, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    source = make(work / "iter_0001000")
    print(f"{'medians':<46} {'cpu s':>7} {'wall s':>7} {'MB':>7} {'file MB':>8}")
    for to in TARGETS:
        runs = [plan(source, to, work / "plan") for _ in range(arguments.rounds)]
        processor, wall, memory = (median(values) for values in zip(*runs, strict=True))
        size = (work / "plan").stat().st_size
        print(f"{to:<46} {processor:>7.2f} {wall:>7.2f} {memory / 1e6:>7,.0f} {size / 1e6:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
