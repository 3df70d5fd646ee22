"""`python -m ucp_checkpoint.engine_folder VERSION OUT`: a version of `ucp.deepspeed.memory_tier` as DeepSpeed's folder.

Every command reads that folder, and so does DeepSpeed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._drop_in import Options, absolute, put_in_place, sync, work_folder
from ucp_checkpoint._engine_files import TAG, write_folder
from ucp_checkpoint._failure import failure
from ucp_checkpoint._tier_folder import newest_version


def write(version: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """`version` is the folder of one, or `memory:JOB`: the newest one that is whole in this machine's memory."""
    need_torch("engine_folder writes files of PyTorch")
    named = os.fsdecode(version)
    job = named.removeprefix("memory:")
    place = absolute("out", out)
    if os.path.lexists(place):
        raise failure("usage", f"`{place}` exists; name another folder")
    with work_folder(place) as work:
        source = named if job == named else str(newest_version(job))
        write_folder(source, work / "made", verify=True)
        for file in [*(work / "made" / TAG).iterdir(), work / "made" / TAG, work / "made" / "latest", work / "made"]:
            sync(file)
        put_in_place(work / "made", place, [])


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = Options(prog="engine_folder", description="Write a version of a DeepSpeed engine as DeepSpeed's folder.")
    parser.add_argument("version", help="the folder of a version, or memory:JOB, the newest one of a job")
    parser.add_argument("out", type=Path, help="the folder to make, which must not exist")
    given = vars(parser.parse_args(words))
    return parser.run(lambda: write(**given))


if __name__ == "__main__":
    sys.exit(main())
