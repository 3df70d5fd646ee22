"""There and back: whichever way a checkpoint goes, through native files of any strategy and universal folders, every
element is what the engine held, and what comes back to a strategy is what goes there straight.

The ways are random. A failing test names its seed; UCP_TEST_SEED=that takes it first. UCP_TEST_SECONDS=60, as with
`tests/run.sh --full`, takes more of them.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import OWN_SPEC_OF, SPEC_OF
from fixtures.cases import CASES, Case
from fixtures.fingerprints import differences
from matrix import CUT_OVER, STAGES, reason
from native import CLIENT, plain, read_files
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

SEED = int(os.environ.get("UCP_TEST_SEED", "1"))
SECONDS = 5 * float(os.environ.get("UCP_TEST_SECONDS", "0"))
WAYS = 100  # At least.

# Of tensor parallelism, by a spec.
DEGREES = {"gpt": (1, 2, 4), "llama": (1, 2, 4), "mixture_tensor": (1, 2, 4), "autoep_autotp": (1, 2, 4)}
SPECS = SPEC_OF | OWN_SPEC_OF | {"autoep_autotp": FIXTURES / "autoep_autotp.ucp"}
# A number of stages alone is not one target: straight from a pipeline of as many they stay, and through other folders,
# which do not know how the model deals its layers, they are what DeepSpeed deals by default. (Of `gpt` and `llama`, the
# specs know.)
STAGE_COUNTS = {
    "gpt": ("1", "2", "4"),
    "llama": ("1", "2+1"),
    "pipeline": ("1", "4+3"),
    "autoep_pipeline": ("1", "4+4", "3+5"),
}


def stages_of(case: Case) -> list[int]:
    """Of the native files that can be written for it and read again: without ZeRO, DeepSpeed's files do not name a
    pipeline's tied modules. Of what is elastic, other stages want settings."""
    if case.zero.get("elastic_checkpoint"):
        return [1, 2]
    readable = STAGES["native"][1:] if case.model in CUT_OVER["pp"] else STAGES["native"]
    return [stage for stage in readable if reason("native", case, f"stage {stage}") is None]


WAYS_FROM = [case.name for case in CASES.values() if stages_of(case)]


def told_by_values(case: Case) -> bool:
    """Whether, without ZeRO, only the masters' values say which parameter is which: some are frozen that have shapes of
    others, or are Muon's. In float32 the model itself is the masters, and nothing says it."""
    has_frozen = any(entry["kind"] == "frozen" for entry in truth_of(case.name)["tensors"].values())
    return has_frozen or case.optimizer == "muon"


def narrow_masters(case: Case) -> bool:
    """Types of masters stay as they are, and at stage 0 in float32 the model itself is the masters: these have no such
    file, which `test_narrow_masters_have_no_float32_model` sees refused."""
    tensors = truth_of(case.name)["tensors"].values()
    return any(entry["states"]["fp32"]["dtype"] != "float32" for entry in tensors if entry["kind"] == "parameter")


def native(case: Case, choose: random.Random, dtype: str | None = None) -> str:
    """Any strategy that the model can have."""
    stages = stages_of(case)
    if dtype == "fp32" and told_by_values(case):
        stages = [stage for stage in stages if stage > 0]
    stage = choose.choice(stages)
    pp, tp = choose.choice(STAGE_COUNTS.get(case.model, ("1",))), choose.choice(DEGREES.get(case.model, (1,)))
    dtype = dtype or choose.choice(
        ["bf16", "fp16"] if stage == 0 and (narrow_masters(case) or told_by_values(case)) else ["fp32", "bf16", "fp16"]
    )
    dp = choose.choice([1, 2, 3, 4, 8])
    options = {"pp": pp, "tp": tp, "dp": dp, "zero": stage, "dtype": dtype}
    if case.model.startswith("autoep"):  # It is spread where there are tensor-parallel ranks.
        options["ep"] = choose.choice([ep for ep in (1, 2, 4) if tp * dp % ep == 0 and (tp == 1 or ep > 1)])
    if stage in (1, 2):
        is_free = (stage, dtype) == (1, "bf16") and not case.zero.get("elastic_checkpoint")
        options["optimizer"] = choose.choice(["zero", "bf16"]) if is_free else "zero"
        can_shift = (pp, tp) == ("1", 1) and options["optimizer"] == "zero"
        options["round_robin"] = choose.choice(["true", "false"]) if can_shift else "false"
        options["alignment"] = choose.choice(["true", "false"]) if can_shift else "false"
    return "deepspeed:" + ",".join(f"{key}={value}" for key, value in options.items())


def hop(case: Case, choose: random.Random) -> str:
    """A folder on the way. Frozen weights have no masters, so that a narrower type would round them for good."""
    if choose.random() < 0.3:
        return "universal"
    has_frozen = any(entry["kind"] != "parameter" for entry in truth_of(case.name)["tensors"].values())
    return native(case, choose, choose.choice([case.dtype, "fp32"]) if has_frozen else None)


def tensors_in(value: Any, place: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a file that is the model's, and not the training script's."""
    value = plain(value)
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in CLIENT:
                yield from tensors_in(entry, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from tensors_in(entry, f"{place}[{index}]")


def unlike_tensors(ours: Path, theirs: Path) -> list[str]:
    """The tensors of two native folders that differ, or that only one has."""
    mine, others = (dict(tensors_in(read_files(root), "")) for root in (ours, theirs))
    assert mine
    either = sorted(mine.keys() | others.keys())
    return [
        place
        for place in either
        if place not in mine
        or place not in others
        or mine[place].dtype != others[place].dtype
        or not torch.equal(mine[place], others[place])
    ]


def test_there_and_back(run: Callable[..., str], tmp_path: Path) -> None:
    began, ways = time.monotonic(), 0
    while ways < WAYS or time.monotonic() - began < SECONDS:
        go(WAYS_FROM[(SEED + ways) % len(WAYS_FROM)], SEED + ways, run, tmp_path / str(ways))
        ways += 1
    print(f"{ways} ways from seed {SEED} on")


@pytest.mark.parametrize("name", [case.name for case in CASES.values() if narrow_masters(case)])
def test_narrow_masters_have_no_float32_model(name: str, ucprun: Path, tmp_path: Path) -> None:
    command = [
        ucprun,
        "convert",
        FIXTURES / name / "checkpoint",
        tmp_path / "out",
        "--to",
        "deepspeed:zero=0,dtype=fp32",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    assert "at zero=0 with dtype=fp32 the model is its own master" in result.stderr
    assert not (tmp_path / "out").exists()


def go(name: str, seed: int, run: Callable[..., str], place: Path) -> None:
    """One way: hops, then a strategy of the source's type, and what a universal folder of that says."""
    case, choose = CASES[name], random.Random(seed)
    hops = [hop(case, choose) for _ in range(choose.randint(1, 3))]
    last = native(case, choose, case.dtype)
    told = f"seed {seed}: {name} to {', '.join(hops)}, and {last}"
    spec = ["--spec", SPECS[case.model]] if case.model in SPECS else []

    def convert(source: Path, to: str, output: str) -> Path:
        try:
            run("convert", source, place / output, "--to", to, *spec)
        except AssertionError as refusal:
            raise AssertionError(f"{told}\n{refusal}") from None
        return place / output

    source = at = FIXTURES / name / "checkpoint"
    place.mkdir()
    for index, to in enumerate(hops):
        at = convert(at, to, f"hop{index}")
    back, straight = convert(at, last, "back"), convert(source, last, "straight")
    assert unlike_tensors(back, straight) == [], told
    ours = describe_states(read_states(tag_folder(convert(back, "universal", "whole"))))
    assert differences(truth_of(name), ours, ["parameter"]) == [], told
