"""means.py --work FOLDER CHECKPOINT [-- MORE]: a conversion through the page cache, past it, and as a trial chooses.

CHECKPOINT and FOLDER are on the disk in question. In each round the source is put out of the page cache (or, with
--warm, read into it), for each of the three and for `cp -r` with a sync in turn. The script prints the median of the
rounds' times, as a part of the one through the page cache in the same round, and what the trials chose. MORE, such as
`--spec NAME --set layers=14`, goes to `ucprun convert`. UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from compare import ROOT

PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build/release/bin")) / "ucprun"
WAYS = ("buffered", "direct", "auto")


def prepare(folder: Path, warm: bool) -> None:
    """All of its files are in the page cache, or none is."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        with path.open("rb", buffering=0) as file:
            os.fsync(file.fileno())
            if warm:
                while file.read(1 << 22):
                    pass
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(command: list[str]) -> tuple[float, str]:
    """How long it takes, and what it prints."""
    begin = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(command)}: ended with status {result.returncode}")
    return time.monotonic() - begin, result.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--to", default="universal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("more", nargs="*")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    out = options.work / "means-out"
    parts: dict[str, list[float]] = {way: [] for way in (*WAYS, "cp -r, sync")}
    chosen: Counter[str] = Counter()
    for _ in range(options.rounds):
        times = {}
        for way in parts:
            prepare(options.checkpoint, options.warm)
            if way in WAYS:
                times[way], text = seconds([str(PROGRAM), "convert", str(options.checkpoint), str(out), "--to",
                                            options.to, "--io", way, "--json", *options.more])  # fmt: skip
                if way == "auto":
                    io = json.loads(text)["io"]
                    chosen[f"reading {io['reading']['means']}, writing {io['writing']['means']}"] += 1
            else:
                copy = f'cp -r "{options.checkpoint}" "{out}" && find "{out}" -type f -exec sync {{}} +'
                times[way], _ = seconds(["bash", "-c", copy])
            shutil.rmtree(out)
        for way, of_round in parts.items():
            of_round.append(times[way] / times["buffered"])
    print(f"{'':<12} {'of buffered':>12} {'least':>7} {'most':>7}")
    for way, of_rounds in parts.items():
        print(f"{way:<12} {statistics.median(of_rounds):>12.2f} {min(of_rounds):>7.2f} {max(of_rounds):>7.2f}")
    for what, times_chosen in chosen.most_common():
        print(f"auto: {what}, {times_chosen} of {options.rounds}")


if __name__ == "__main__":
    main()
