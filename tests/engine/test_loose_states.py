"""States that are not one number for each element: carried where the target cuts as the source does, else refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Run
from fixtures.cases import CASES, Case, Mesh
from fixtures.eight_bits import RUNS, EightBits
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from native import differences_of_files, read_files
from test_acceptance import OTHER_SEED, noise
from test_native import OTHER_DTYPE

Saved = tuple[Path, dict[str, Any]]


@dataclass(frozen=True)
class Source:
    """A fixture's case, also with another optimizer, or without ZeRO."""

    name: str
    optimizer: str
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def case(self) -> Case:
        """The run that is saved."""
        return replace(CASES[self.name], optimizer=self.optimizer, **dict(self.changes))

    def __str__(self) -> str:
        return "-".join([self.name, self.optimizer, *(f"{key}={value}" for key, value in self.changes)])


FLAT = Source("zero1_dp4", "blocks")
TINY = Source("bf16_optimizer_dp4_tiny", "blocks")  # Partitions of padding alone.
CUT = Source("zero3_dp4", "blocks")
WHOLE = Source("zero0_unfused_bf16", "blocks")
FACTORS = Source("zero0_unfused_bf16", "adafactor")
STAGES = Source("pipeline_zero0_fp32", "blocks")
# With ZeRO, blocks would span what tensor-parallel ranks share and what they do not, so that their copies drift.
TENSOR = Source("autotp_tp2_dp2", "blocks", (("stage", 0),))


@pytest.fixture(scope="module")
def saved(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Source], Saved]:
    """Where a source was saved, and what the engine told of it; trained once."""
    done: dict[Source, Saved] = {}

    def train(source: Source) -> Saved:
        if source not in done:
            place = tmp_path_factory.mktemp("saved") / "checkpoint"
            done[source] = place, engines.ask(Job(source.case, steps=3, save=place, further_steps=3))
        return done[source]

    return train


# The changes of the run that resumes, and its strategy. States that are stepped together stay.
CARRIED = [
    (FLAT, {"stage": 2}, "dp=4,zero=2"),
    (FLAT, {"fp32_accumulation": True}, "dp=4,zero=1,optimizer=bf16"),
    (FLAT, {"dtype": "fp32"}, "dp=4,zero=1,dtype=fp32"),
    (TINY, {"fp32_accumulation": False}, "dp=4,zero=1,optimizer=zero"),
    (CUT, {}, "dp=4,zero=3,sub_group_size=1000"),
    (WHOLE, {"mesh": Mesh(dp=4)}, "dp=4,zero=0"),
    (FACTORS, {"mesh": Mesh(dp=1)}, "dp=1,zero=0"),
    (STAGES, {"mesh": Mesh(pp=1, dp=2)}, "pp=1,dp=2,zero=0"),
    (TENSOR, {"mesh": Mesh(tp=2, dp=4)}, "tp=2,dp=4,zero=0"),
]


@dataclass(frozen=True)
class Resumed:
    """A source that was converted, and what an engine held and saved that loaded it."""

    place: Path
    ours: Path
    theirs: Path


@pytest.fixture
def resume(
    saved: Callable[[Source], Saved], engines: Engines, run: Run, tmp_path: Path
) -> Callable[[Source, dict[str, Any], str], Resumed]:
    """Every state is there bit for bit, and the engine goes on as if it had not been interrupted."""

    def convert_and_load(source: Source, changes: dict[str, Any], strategy: str) -> Resumed:
        place, told = saved(source)
        case = replace(source.case, **changes)
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        run("convert", place, ours, "--to", f"deepspeed:{strategy}")
        job = Job(case, seed=OTHER_SEED, load=ours, native=True, first_step=3, save=theirs, further_steps=3)
        answer = engines.ask(job)
        assert differences(told["saved"], answer["loaded"], ["parameter"]) == []
        tolerance = noise(case) if case.dtype == source.case.dtype else OTHER_DTYPE
        assert answer["losses"] == pytest.approx(told["losses"][3:], abs=tolerance)
        return Resumed(place, ours, theirs)

    return convert_and_load


@pytest.mark.parametrize(("source", "changes", "strategy"), CARRIED, ids=lambda value: str(value).replace(" ", ""))
def test_states_stay_where_the_cut_stays(
    source: Source, changes: dict[str, Any], strategy: str, resume: Callable[..., Resumed], run: Run
) -> None:
    resumed = resume(source, changes, strategy)
    assert differences_of_files(resumed.ours, resumed.theirs) == []
    if source is not STAGES:  # Nothing in files without ZeRO says which parameter of a pipeline is which.
        run("verify", resumed.place, "--same", resumed.ours)


def eight_bit_states(value: Any, place: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor among the states of a parameter; bitsandbytes puts its own into a dict of theirs when it saves."""
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            hidden = key == "__bnb_optimizer_quant_state__"
            yield from eight_bit_states(entry, place if hidden else f"{place}.{key}")


def optimizer_states(root: Path) -> dict[str, torch.Tensor]:
    """By file and place, those of the optimizer beside the masters."""
    states: dict[str, torch.Tensor] = {}
    for name, file in read_files(root).items():
        held = file.get("optimizer_state_dict") or file.get("optimizer") or {}
        held = held.get("base_optimizer_state") or held.get("optimizer_state_dict") or held
        states |= dict(eight_bit_states(held.get("state", {}), name))
    return states


@pytest.mark.parametrize("eight_bits", RUNS, ids=lambda run: run.name)
def test_bitsandbytes_resumes(eight_bits: EightBits, run: Run, tmp_path: Path) -> None:
    """Real eight-bit states: an engine that had loaded our files saved them again, in a dict, and else the same."""
    source, theirs, ours = eight_bits.place / "checkpoint", eight_bits.place / "resumed", tmp_path / "ours"
    run("convert", source, ours, "--to", eight_bits.strategy)
    run("verify", source, "--same", theirs)
    run("verify", ours, "--same", theirs)
    mine, others = optimizer_states(ours), optimizer_states(theirs)
    assert {value.dtype for value in mine.values()} >= {torch.uint8, torch.float32}
    assert mine.keys() == others.keys()
    assert all(torch.equal(mine[place], others[place]) for place in mine)


REFUSED = [
    (FLAT, "deepspeed:dp=2,zero=1", "the target steps ["),
    (FLAT, "deepspeed:dp=4,zero=3", "the target steps ["),
    (CUT, "deepspeed:dp=4,zero=3,sub_group_size=500", "the target steps ["),
    (WHOLE, "deepspeed:dp=2,zero=1", "the target steps ["),
    (TENSOR, "deepspeed:tp=1,dp=2,zero=0", "the target steps ["),
    (FLAT, "universal", "`universal` has no place for it"),
]


def refusal(ucprun: Path, *arguments: str | Path) -> str:
    """The message of the program for a conversion that it refuses."""
    result = subprocess.run([ucprun, "convert", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result
    return result.stderr


@pytest.mark.parametrize(("source", "to", "words"), REFUSED, ids=lambda value: str(value).replace(" ", ""))
def test_states_are_refused_where_the_cut_changes(
    source: Source, to: str, words: str, saved: Callable[[Source], Saved], ucprun: Path, run: Run, tmp_path: Path
) -> None:
    """With the state, where it was found and the way out; nothing is written. Without them the rest is converted."""
    place, _ = saved(source)
    said = refusal(ucprun, place, tmp_path / "ours", "--to", to)
    assert "`absmax` of " in said
    assert words in said
    assert "--drop-state absmax" in said
    assert not (tmp_path / "ours").exists()
    dropped = [word for name in ("absmax", "codes", "largest", "rounded") for word in ("--drop-state", name)]
    run("convert", place, tmp_path / "ours", "--to", to, *dropped)


def test_weights_alone_need_no_states(saved: Callable[[Source], Saved], run: Run, tmp_path: Path) -> None:
    """A folder for inference leaves out every state anyway."""
    run("convert", saved(FLAT)[0], tmp_path / "ours", "--to", "safetensors")


def test_codes_go_with_their_scales(saved: Callable[[Source], Saved], ucprun: Path, tmp_path: Path) -> None:
    """Codes have a number for each element, and are nothing in another cut."""
    scales = [word for name in ("absmax", "largest", "rounded") for word in ("--drop-state", name)]
    said = refusal(ucprun, saved(FLAT)[0], tmp_path / "ours", "--to", "universal", *scales)
    assert "`codes` of group 0" in said
    assert "and so a code" in said


def test_a_damaged_copy_is_seen(saved: Callable[[Source], Saved], ucprun: Path, run: Run, tmp_path: Path) -> None:
    """`verify --same` also compares such states."""
    place, _ = saved(FLAT)
    ours = tmp_path / "ours"
    run("convert", place, ours, "--to", "deepspeed:dp=4,zero=2")
    for file in ours.glob("*/*rank_1_mp_rank_00_optim_states.pt"):
        content = torch.load(file, weights_only=False)
        content["optimizer_state_dict"]["base_optimizer_state"]["state"][0]["absmax"][0] += 1
        torch.save(content, file)
    command = [str(ucprun), "verify", str(place), "--same", str(ours)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3
    assert "absmax" in result.stdout + result.stderr
