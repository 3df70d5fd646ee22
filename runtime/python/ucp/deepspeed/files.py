"""The target's files as the engine's ranks load them: converted for its strategy."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from deepspeed import comm as dist

from .errors import LoadError


class ConvertedFiles:
    TAG = "loaded"

    def __init__(self, source: str, strategy: str, config: dict[str, Any], options: list[str]) -> None:
        place: list[Any] = [None]
        said: list[Any] = [None]
        if dist.get_rank() == 0:
            place[0] = tempfile.mkdtemp(prefix="ucp-", dir="/dev/shm")
            try:
                (Path(place[0]) / "job.json").write_text(json.dumps(config, default=str))
                program = Path(__file__).parents[1] / "bin" / "ucprun"
                words = [
                    program,
                    "convert",
                    source,
                    f"{place[0]}/out",
                    "--to",
                    strategy,
                    "--tag",
                    self.TAG,
                    "--ds-config",
                    f"{place[0]}/job.json",
                    *options,
                ]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                said[0] = done.stderr.replace("ucprun: error: ", "").strip() if done.returncode else None
                self.notes = done.stderr
            except Exception as error:
                said[0] = str(error)
        dist.broadcast_object_list(place, src=0)
        dist.broadcast_object_list(said, src=0)
        self.place = Path(place[0])
        if said[0]:
            self.close()
            raise LoadError(said[0])
        self.folder = self.place / "out" / self.TAG
        self.names = sorted(file.name for file in self.folder.iterdir())

    def open(self, name: str) -> Any:
        return torch.load(self.folder / name, map_location="cpu", weights_only=False, mmap=True)

    def close(self) -> None:
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(self.place)
