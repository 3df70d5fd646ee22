"""load_gpu.py WORK: `ucprun load` of a safetensors folder into a GPU, from page cache or tmpfs, beside safetensors.

WORK gets a checkpoint of the shapes of Qwen3-30B-A3B, 18,867 tensors and 61 GB, with as many of its layers as
`--gigabytes` allows, made once by `ucprun synth`. It is loaded once with every element compared. Then every round runs
each way once; what is printed are medians of bytes a second, and the part of the rate of copies from pinned memory
that was reached, which is measured in the same run. It needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SPEC = ROOT / "specs" / "qwen3_moe_per_expert.ucp"
DIMS = {"layers": 48, "hidden": 2048, "heads": 32, "kv_heads": 4, "head": 128, "ffn": 768, "dense_ffn": 6144,
        "experts": 128, "step": 1, "vocab": 151936}  # fmt: skip
TINY = {"layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "head": 8, "ffn": 16, "dense_ffn": 64,
        "experts": 4, "step": 1, "vocab": 128}  # fmt: skip
ITEM = 2  # bfloat16.


def bytes_of(dims: dict[str, int]) -> tuple[int, int]:
    """Of a layer, and of all that is not in one."""
    attention = 2 * dims["hidden"] * dims["head"] * (dims["heads"] + dims["kv_heads"])
    experts = dims["experts"] * dims["hidden"] * (3 * dims["ffn"] + 1)
    return ITEM * (attention + experts), ITEM * 2 * dims["vocab"] * dims["hidden"]


def output_of(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with status {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def make(ucprun: str, folder: Path, dims: dict[str, int]) -> None:
    if folder.exists():
        return
    sets = [word for name, value in dims.items() for word in ("--set", f"{name}={value}")]
    output_of([ucprun, "synth", str(SPEC), str(folder), "--to", "safetensors:dtype=bf16", *sets, "--set",
               "only_dense=[]"])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--gigabytes", type=float, default=61.1)
    parser.add_argument("--tiny", action="store_true", help="shapes of nothing, to try the script")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ucprun", default=str(ROOT / "build" / "release" / "bin" / "ucprun"))
    options = parser.parse_args()

    dims = TINY if options.tiny else DIMS
    layer, rest = bytes_of(dims)
    layers = min(dims["layers"], int((options.gigabytes * 1e9 - rest) // layer))
    if layers < 1:
        sys.exit(f"--gigabytes {options.gigabytes}: one layer and the embeddings take {(layer + rest) / 1e9:.1f}")
    folder = options.work / f"qwen3_{layers}_layers"
    device = ["--device", options.device]
    probe = [options.ucprun, "load", str(SPEC.parent), "--to", "safetensors", *device]
    refused = subprocess.run(probe, capture_output=True, text=True, check=False).stderr
    if any(words in refused for words in ("there is no GPU", "sees no GPU", "built without CUDA")):
        sys.exit(f"load_gpu.py needs a GPU: {refused.strip()}")
    make(options.ucprun, folder, {**dims, "layers": layers})

    threads = ["--threads", str(options.threads)]
    load = [options.ucprun, "load", str(folder), "--to", "safetensors", *device, "--json", *threads]
    compared = json.loads(output_of([*load, "--compare"]))["ranks"][0]
    size = compared["bytes_placed"]
    print(f"{compared['elements_compared']:,} elements compared and equal; {size / 1e9:.2f} GB came in "
          f"{compared['transfers']:,} transfers, with {compared['launches']:,} kernels")  # fmt: skip
    commands = {"ucprun load": [*load, "--ceiling"], "ucprun load --check": [*load, "--ceiling", "--check"]}
    if not options.no_peers:
        peer = [sys.executable, str(HERE / "load_gpu_peer.py"), str(folder), options.device]
        commands["safetensors, safe_open"] = peer
    rates: dict[str, list[float]] = {name: [] for name in commands}
    ceilings: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(options.rounds):
        names = list(commands)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            text = output_of(commands[name])
            if name.startswith("ucprun"):
                rank = json.loads(text)["ranks"][0]
                rates[name].append(rank["bytes_per_second"])
                ceilings[name].append(rank["ceiling_bytes_per_second"])
            else:
                rates[name].append(size / float(text))
    ceiling = statistics.median(ceilings["ucprun load"])
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"{name:<24} {rate / 1e9:>7.2f} GB/s   {rate / ceiling:>5.0%} of pinned memory to {options.device}")
    print(f"{'pinned memory alone':<24} {ceiling / 1e9:>7.2f} GB/s   {options.threads} threads")


if __name__ == "__main__":
    main()
