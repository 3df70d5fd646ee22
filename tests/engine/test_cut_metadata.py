"""The metadata of cuts in native files: enough for DeepSpeed's converter, and for ours without a spec.

Whatever the source said was of other ranks, or, of a single tensor-parallel rank, nothing about columns. The truth is
the engine's, so that a wrong or a missing word shows as a tensor that is scrambled, doubled or too long.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.megatron_arguments import arguments
from fixtures.serve import Conversion, Engines
from native import differences_of_files
from universal import cutting_rules, describe_states, read_states, tag_folder, truth_of

Convert = Callable[..., Path]

# A fixture, and the ranks for which it is written.
TARGETS = [
    ("gpt_pp1_tp1_dp2", "pp=2,tp=4,dp=1"),
    ("gpt_pp2_tp2_dp2", "pp=1,tp=4,dp=2"),
    ("llama_pp2_tp2_dp2", "pp=2,tp=1,dp=2"),
    ("autotp_tp2_dp2", "tp=3,dp=2"),
    ("autotp_tp2_zero3", "tp=4,dp=1"),
]
# DeepSpeed's converter knows Adam's states alone, and takes its time for the others.
OUR_TARGETS = [
    *TARGETS,
    ("gpt_pp1_tp1_dp2", "pp=1,tp=2,dp=2"),
    ("gpt_pp2_tp2_dp2", "pp=2,tp=2,dp=1"),
    ("gpt_pp2_tp2_dp2", "pp=2,tp=1,dp=2"),
    ("llama_pp2_tp2_dp2", "pp=2,tp=4,dp=1"),
    ("zero3_tp2_dp2", "tp=4,dp=2,zero=2"),
    ("autotp_tp3_zero2", "tp=2,dp=2,zero=1"),
    ("autotp_tp2_zero3", "tp=4,dp=2,zero=2"),
]


def cases(targets: list[tuple[str, str]]) -> Callable[..., Any]:
    """One test for each target."""
    return pytest.mark.parametrize(("name", "ranks"), targets, ids=[f"{name}-{ranks}" for name, ranks in targets])


def without_spec(ucprun: Path, source: Path, output: Path, to: str = "universal") -> str:
    """Converts, and returns the messages."""
    command = [str(ucprun), "convert", str(source), str(output), "--to", to]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stderr


def described(root: Path) -> dict[str, Any]:
    """The contents of a universal folder."""
    return describe_states(read_states(tag_folder(root)))


@cases(TARGETS)
def test_deepspeeds_converter_joins_what_we_cut(
    name: str, ranks: str, convert: Convert, engines: Engines, tmp_path: Path
) -> None:
    """Every element of every state, with its strict check, and without `--inject_missing_state`."""
    source = convert(name, f"deepspeed:{ranks}")
    tag = (source / "latest").read_text()
    engines.ask(Conversion(source / tag, tmp_path / f"{tag}_universal", inject=False))
    assert differences(truth_of(name), described(tmp_path), ["parameter"]) == []


@cases(OUR_TARGETS)
def test_we_need_no_spec_for_what_we_cut(name: str, ranks: str, convert: Convert, ucprun: Path, tmp_path: Path) -> None:
    """Nor the catalogue; and the folder tells a loader as much about cuts as one that a spec made."""
    said = without_spec(ucprun, convert(name, f"deepspeed:{ranks}"), tmp_path / "out")
    if "tp=1" not in ranks:
        assert f"metadata says how its {len(truth_of(name)['tensors'])} tensors are cut" in said
    assert differences(truth_of(name), described(tmp_path / "out"), ["parameter"]) == []
    mine = read_states(tag_folder(tmp_path / "out"))
    assert cutting_rules(mine) == cutting_rules(read_states(tag_folder(convert(name))))


@cases([("gpt_pp2_tp2_dp2", "pp=2,tp=2,dp=2"), ("gpt_pp2_tp2_dp2", "pp=1,tp=1,dp=1"), ("autotp_tp2_dp2", "tp=2,dp=2")])
def test_native_files_become_native_files_without_a_spec(
    name: str, ranks: str, convert: Convert, ucprun: Path, tmp_path: Path
) -> None:
    """For as many tensor-parallel ranks, or for one; padded as those are."""
    between = convert(name, "deepspeed:tp=2,dp=1" + (",pp=2" if "pp" in ranks else ""))
    without_spec(ucprun, between, tmp_path / "out", f"deepspeed:{ranks}")
    assert differences_of_files(tmp_path / "out", convert(name, f"deepspeed:{ranks}")) == []


def test_other_ranks_are_cut_by_the_catalogue(convert: Convert, ucprun: Path, tmp_path: Path) -> None:
    """Metadata is of the ranks that wrote it. It is compared with the spec that fits."""
    said = without_spec(ucprun, convert("gpt_pp2_tp2_dp2", "deepspeed:tp=2"), tmp_path / "out", "deepspeed:tp=4,pp=2")
    assert "spec `megatron_deepspeed_gpt` of the catalogue fits" in said
    assert "own metadata, which describes 52 of 52 tensors, agrees" in said
    assert differences_of_files(tmp_path / "out", convert("gpt_pp2_tp2_dp2", "deepspeed:tp=4,pp=2")) == []


def metadata_of(root: Path) -> list[dict[str, Any]]:
    """Of every file that has some, by name."""
    files = sorted((root / (root / "latest").read_text()).glob("*.pt"))
    contents = [torch.load(file, weights_only=False, map_location="cpu") for file in files]
    found = [content.get("optimizer_state_dict") or content for content in contents]
    return [content["universal_checkpoint_info"] for content in found if "universal_checkpoint_info" in content]


def unordered(value: Any) -> Any:
    """Lists of patterns are looked through."""
    if isinstance(value, dict):
        return {key: unordered(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return value


@pytest.mark.parametrize("changes", [{"stage": 1}, {"stage": 2, "fp32_accumulation": False}, {"stage": 3}])
def test_autotp_says_the_same(changes: dict[str, Any], convert: Convert, engines: Engines, tmp_path: Path) -> None:
    """The engine of four ranks loads our files and saves its own: the metadata is equal, in as many files."""
    ours = convert("autotp_tp2_dp2", f"deepspeed:tp=4,dp=1,zero={changes['stage']}")
    case = replace(CASES["autotp_tp2_dp2"], mesh=Mesh(tp=4, dp=1), tag=(ours / "latest").read_text(), **changes)
    engines.ask(Job(case, load=ours, native=True, first_step=4, save=tmp_path / "theirs"))
    theirs = metadata_of(tmp_path / "theirs")
    assert len(theirs) >= 4
    assert [unordered(info) for info in metadata_of(ours)] == [unordered(info) for info in theirs]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_arguments_of_megatron_have_the_padded_vocabulary(tp: int, convert: Convert) -> None:
    """Megatron-DeepSpeed compares them with its own, and both with the shapes of the embedding."""
    root = convert("gpt_pp2_tp2_dp2", f"deepspeed:tp={tp},dp=1")
    states = torch.load(next(root.glob("*/mp_rank_00_model_states.pt")), weights_only=False)
    info, expected = states["universal_checkpoint_info"], arguments("gpt", 1, tp)
    assert (info["original_vocab_size"], info["padded_vocab_size"]) == (101, expected.padded_vocab_size)
    assert states["args"].padded_vocab_size == expected.padded_vocab_size
