"""dcp.py WORK: conversions from and to torch.distributed.checkpoint beside `cp -r` and PyTorch's own tools.

WORK gets a checkpoint of DeepSpeed's ZeRO stage 1 and the same as a dcp folder of 8 ranks of FSDP, once, of as many
layers as `--layers` says; and the weights as 4 ranks save them by HuggingFaceStorageWriter, which are put together by
PyTorch and by ucprun. Rounds and ratios are those of compare.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from compare import ROOT, Contender, is_in_memory, race, report, size_of

SETS = {"hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 4096, "vocab": 32000}


def make(ucprun: str, work: Path, layers: int) -> tuple[Path, Path, Path]:
    """DeepSpeed's folder, the dcp folder, and the one with Accelerate's names."""
    native, folder, accelerate = work / "native", work / "dcp", work / "accelerate"
    sets = [word for key, value in {**SETS, "layers": layers}.items() for word in ("--set", f"{key}={value}")]
    commands = {
        native: [ucprun, "synth", "llama", str(native), "--to", "deepspeed:dp=4,zero=1,dtype=fp32", *sets],
        folder: [ucprun, "convert", str(native), str(folder), "--to", "dcp:fsdp=8"],
        accelerate: [ucprun, "convert", str(native), str(accelerate), "--to", "dcp:fsdp=8,style=accelerate"],
    }
    for place, command in commands.items():
        if not place.exists():
            subprocess.run([*command, "--quiet"], check=True)
    return native, folder, accelerate


def make_sharded(ucprun: str, python: str, work: Path) -> tuple[Path, Path]:
    """The weights in one file, and as ranks save their parts of it."""
    whole, sharded = work / "whole" / "model.safetensors", work / "sharded"
    if not sharded.exists():
        to = ["--to", "safetensors:max_shard=1TB"]
        subprocess.run([ucprun, "convert", str(work / "dcp"), str(whole.parent), *to, "--quiet"], check=True)
        command = [python, str(ROOT / "tests/bench/dcp_hugging_face.py"), str(whole), str(sharded)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return whole, sharded


# PyTorch's time to put the files of ranks together, without that of importing it.
CONSOLIDATE = '''
import os, sys, time
from safetensors import safe_open
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files as consolidate
whole, sharded, out = sys.argv[1:]
with safe_open(whole, framework="pt") as file:
    files = dict.fromkeys(file.keys(), 1)
begin = time.perf_counter()
consolidate(sharded, out, files, num_threads=len(os.sched_getaffinity(0)))
print(time.perf_counter() - begin)
'''


def race_hugging_face(arguments: argparse.Namespace, ucprun: str, out: Path, sync: str) -> None:
    """A sharded save, and the files of its ranks put together."""
    python = str(arguments.engine)
    whole, sharded = make_sharded(ucprun, python, arguments.work.resolve())
    script = [python, str(ROOT / "tests/bench/dcp_hugging_face.py"), str(whole), str(out)]
    racers = [
        Contender("cp -r, the source", ["sh", "-c", f"cp -r {sharded} {out}{sync}"]),
        Contender("HuggingFaceStorageWriter, 4 ranks", script, says_seconds=True),
        Contender("the same, and consolidated", [*script, "--consolidate"], says_seconds=True),
        Contender("consolidate_safetensors_files", [python, "-c", CONSOLIDATE, str(whole), str(sharded), str(out)],
                  prepare=lambda place: place.mkdir(), says_seconds=True),
        Contender("ucprun, sharded to safetensors",
                  [ucprun, "convert", str(sharded), str(out), "--to", "safetensors", "--memory", arguments.memory]),
    ]  # fmt: skip
    race(arguments, racers, out)
    report(racers, size_of(sharded))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="forget cached files before each run (needs root)")
    parser.add_argument("--memory", default="64MiB")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave PyTorch's tools out")
    parser.add_argument("--bin", type=Path, default=os.environ.get("UCP_BIN", ROOT / "build/release/bin"))
    parser.add_argument("--engine", type=Path, default=ROOT / "build/engine-venv/bin/python")
    arguments = parser.parse_args()
    ucprun = str(arguments.bin / "ucprun")
    arguments.work.mkdir(parents=True, exist_ok=True)
    native, folder, accelerate = make(ucprun, arguments.work.resolve(), arguments.layers)
    out = arguments.work.resolve() / "out"
    sync = "" if is_in_memory(out) else f" && sync -f {out}"

    def convert(source: Path, to: str) -> Contender:
        command = [ucprun, "convert", str(source), str(out), "--to", to, "--memory", arguments.memory]
        return Contender(f"ucprun, {source.name} to {to}", command)

    for source, targets in ((folder, ("dcp:fsdp=6", "deepspeed:dp=4,zero=1,dtype=fp32", "safetensors:dtype=bf16")),
                            (native, ("dcp", "dcp:fsdp=8"))):  # fmt: skip
        racers = [Contender("cp -r, the source", ["sh", "-c", f"cp -r {source} {out}{sync}"])]
        racers += [convert(source, to) for to in targets]
        if arguments.peers and source == folder:
            python = str(arguments.engine)
            save = "from torch.distributed.checkpoint.format_utils import dcp_to_torch_save as save"
            racers.append(Contender("dcp_to_torch_save", [python, "-c", f"{save}; save('{folder}', '{out}/all.pt')"],
                                    prepare=lambda place: place.mkdir()))  # fmt: skip
            merge = "from accelerate.utils import merge_fsdp_weights as merge"
            call = f"{merge}; merge('{accelerate}/pytorch_model_fsdp_0', '{out}')"
            racers.append(Contender("Accelerate's merge_fsdp_weights", [python, "-c", call]))
            racers.append(convert(accelerate, "safetensors"))
        race(arguments, racers, out)
        report(racers, size_of(source))
    if arguments.peers:
        race_hugging_face(arguments, ucprun, out, sync)


if __name__ == "__main__":
    main()
