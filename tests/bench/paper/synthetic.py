"""Made-up checkpoints for figures 10 and 11, and what their commands have in common."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

SPEC = "megatron_deepspeed_gpt"
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


def options_of(sizes: dict[str, int]) -> list[str]:
    """The words for all that the headers of such a checkpoint do not say."""
    return ["--spec", SPEC, *(f"--set={name}={sizes[name]}" for name in ("layers", "heads"))]


def make(place: Path, strategy: str, sizes: dict[str, int]) -> int:
    """A checkpoint of DeepSpeed's; its bytes."""
    ucprun = Path(os.environ["UCP_BIN"]) / "ucprun"
    dims = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    subprocess.run([ucprun, "synth", SPEC, place, "--to", f"deepspeed:{strategy}", *dims, "--quiet"], check=True)
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def json_of(output: str) -> dict[str, Any]:
    """The report in what mpirun and `ucprun` print."""
    report: dict[str, Any] = json.loads(output[output.index("{") :])
    return report
