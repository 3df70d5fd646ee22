"""The state of a running engine, as fingerprints, and how the package is asked for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fixtures.cases import CASES
from fixtures.fingerprints import describe

__all__ = ["FIXTURES", "checkpoint", "describe", "spec_of", "states_of", "truth_of"]

FIXTURES = Path(__file__).parents[1] / "fixtures"
SPEC_OF = {kind: f"megatron_deepspeed_{kind}" for kind in ("gpt", "llama", "gpt_no_pipeline")}
SPEC_OF |= {model: str(FIXTURES / f"{model}.ucp") for model in ("mixture_tensor", "mixture_whole")}


def checkpoint(name: str) -> Path:
    """The folder that the engine wrote."""
    return FIXTURES / name / "checkpoint"


def spec_of(name: str) -> str | None:
    """Only tensor parallelism needs one."""
    return SPEC_OF.get(CASES[name].model)


def truth_of(name: str) -> dict[str, Any]:
    """The state of the running engine."""
    return json.loads((FIXTURES / name / "truth.json").read_text())


def states_of(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The shape, dtype and fingerprint of every state of every trained parameter."""
    return {
        (tensor, state): {"shape": entry["shape"], **described}
        for tensor, entry in truth_of(name)["tensors"].items()
        if entry["kind"] == "parameter"
        for state, described in entry["states"].items()
        if state != "weight"
    }
