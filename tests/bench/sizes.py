"""sizes.py FOLDER [--gigabytes N …]: how a conversion's time grows with the bytes of its checkpoint.

For each size a synthetic ZeRO-1 checkpoint is made in FOLDER, converted to a universal one --rounds times, and removed;
FOLDER needs room for twice the largest. The script prints for each the least wall time and processor time of
the rounds, and both for each GB that was moved: straight growth is the same number in each line. UCP_BIN names the
folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from compare import ROOT, run

PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build/release/bin")) / "ucprun"
SPEC = "megatron_deepspeed_gpt"
FIXED = {"hidden": 640, "heads": 16, "ffn": 2560, "vocab": 4096, "seq": 1024}
BYTES_OF_LAYER = 14 * (12 * 640 * 640 + 13 * 640)  # Weights in bf16, three states in fp32.
BYTES_OF_OTHERS = 14 * (4096 + 1024) * 640  # The embeddings.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    source, out = options.folder / "sizes-source", options.folder / "sizes-out"
    print(f"{'GB moved':>9} {'wall s':>8} {'a GB':>7} {'processor s':>12} {'a GB':>7}")
    for gigabytes in options.gigabytes:
        layers = max(1, round((gigabytes * 1e9 - BYTES_OF_OTHERS) / BYTES_OF_LAYER))
        settings = [f"--set={name}={value}" for name, value in {**FIXED, "layers": layers}.items()]
        subprocess.run([str(PROGRAM), "synth", SPEC, str(source), "--to", "deepspeed:tp=2,pp=1,dp=2,zero=1,dtype=bf16",
                        *settings], check=True, capture_output=True)  # fmt: skip
        convert = [str(PROGRAM), "convert", str(source), str(out), "--to", "universal", "--spec", SPEC,
                   "--set=heads=16", f"--set=layers={layers}"]  # fmt: skip
        planned = subprocess.run([*convert, "--dry-run", "--json"], check=True, capture_output=True, text=True)
        report = json.loads(planned.stdout)
        moved = sum(report[key] for key in ("bytes_to_copy", "bytes_to_compare", "bytes_to_write")) / 1e9
        walls, processors = [], []
        for _ in range(options.rounds):
            wall, processor, _ = run(convert)
            walls.append(wall)
            processors.append(processor)
            shutil.rmtree(out)
        wall, processor = min(walls), min(processors)
        print(
            f"{moved:>9.2f} {wall:>8.2f} {wall / moved:>7.2f} {processor:>12.2f} {processor / moved:>7.2f}", flush=True
        )
        shutil.rmtree(source)


if __name__ == "__main__":
    main()
