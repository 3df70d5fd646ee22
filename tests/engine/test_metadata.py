"""AutoTP's metadata of its cuts: converted without a spec, drafted into one, and doubted where it is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.checkpoint.affine import ParamAffineMap

from fixtures.autotp import SIZES
from fixtures.cases import CASES
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

AUTOTP = [name for name, case in CASES.items() if case.model == "autotp"]
NAME = "autotp_tp2_dp2"
NORM = r"^model\.norm\.weight$"
DOWN = r"^model\.layers\.1\.mlp\.down_proj\.weight$"

Change = Callable[[dict[str, Any]], None]


def changed(folder: Path, change: Change, name: str = NAME) -> Path:
    """A copy of a fixture whose `universal_checkpoint_info` was changed in every file."""
    source = folder / "source"
    shutil.copytree(FIXTURES / name / "checkpoint", source)
    return change_in_place(source, change)


def change_in_place(source: Path, change: Change) -> Path:
    """The same of a folder that is not a fixture."""
    for file in source.glob("*/mp_rank_*_model_states.pt"):
        states = torch.load(file, weights_only=False)
        change(states["universal_checkpoint_info"])
        torch.save(states, file)
    return source


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Without raising."""
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def convert(ucprun: Path, source: Path, output: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """By the program under test."""
    return run(ucprun, "convert", source, output, "--to", "universal", *options)


def wrong_tensors(output: Path, name: str = NAME) -> list[str]:
    """The differences from the state of the engine."""
    return differences(truth_of(name), describe_states(read_states(tag_folder(output))), ["parameter"])


def refused(result: subprocess.CompletedProcess[str], output: Path, code: int, *words: str) -> None:
    """One sentence, and nothing written."""
    assert result.returncode == code, result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr
    assert not output.exists()


@pytest.mark.parametrize("name", AUTOTP)
def test_no_spec_is_needed(name: str, ucprun: Path, tmp_path: Path) -> None:
    """The note says what was used. That the result is right test_truth.py says of every fixture."""
    result = convert(ucprun, FIXTURES / name / "checkpoint", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    count = len(truth_of(name)["tensors"])
    assert f"metadata says how its {count} tensors are cut" in result.stderr
    assert f"{count} of them by affine maps and 0 by patterns" in result.stderr


@pytest.mark.parametrize("name", AUTOTP)
def test_the_draft_converts_to_the_truth(name: str, ucprun: Path, tmp_path: Path) -> None:
    """Maps leave no reading open; the draft, used as a spec, agrees with the metadata without a warning. It asks
    whether the places of the attention are heads or not, since this model's `hidden` is both. On three ranks heads
    are spread unevenly, and the widths are theirs."""
    source = FIXTURES / name / "checkpoint"
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    config = ("--config", tmp_path / "config.json")
    drafted = run(ucprun.with_name("ucpc"), "infer", source, "-o", tmp_path / "drafted.ucp", *config)
    assert drafted.returncode == 0, drafted.stderr
    assert "open" not in drafted.stderr
    questions = [line for line in (tmp_path / "drafted.ucp").read_text().splitlines() if "question:" in line]
    assert all("places are `heads@tp * " in question for question in questions)
    result = convert(ucprun, source, tmp_path / "out", "--spec", tmp_path / "drafted.ucp", *config)
    assert (result.returncode, result.stderr) == (0, "")
    assert wrong_tensors(tmp_path / "out", name) == []


@pytest.mark.parametrize("name", AUTOTP)
def test_the_catalogue_agrees(name: str, ucprun: Path, tmp_path: Path) -> None:
    """Its Llama, with the model's own `config.json`, reads every tensor as AutoTP's maps do."""
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    options = ("--spec", "llama", "--config", tmp_path / "config.json")
    result = convert(ucprun, FIXTURES / name / "checkpoint", tmp_path / "out", *options)
    assert (result.returncode, result.stderr) == (0, "")
    assert wrong_tensors(tmp_path / "out", name) == []


def test_a_spec_outranks_the_metadata_and_says_so(ucprun: Path, tmp_path: Path) -> None:
    """Both readings fit the files; the spec's is taken, with a warning that names tensor, place and both."""
    source = FIXTURES / NAME / "checkpoint"
    spec = tmp_path / "mine.ucp"
    assert run(ucprun.with_name("ucpc"), "infer", source, "-o", spec).returncode == 0
    text = spec.read_text()
    line = next(line for line in text.splitlines() if "down_proj" in line)
    spec.write_text(text.replace(line, '    "mlp.down_proj.weight" [32@tp, 13]'))
    result = convert(ucprun, source, tmp_path / "out", "--spec", spec)
    assert result.returncode == 0, result.stderr
    assert "warning: the checkpoint's metadata reads tensor `model.layers.0.mlp.down_proj.weight`" in result.stderr
    assert "and 1 more of this pattern" in result.stderr
    assert "as `[16, 26@tp]`, and the spec as `[32@tp, 13]` [metadata-disagreement]" in result.stderr
    assert {line.split()[0] for line in wrong_tensors(tmp_path / "out")} == {
        f"model.layers.{i}.mlp.down_proj.weight" for i in range(2)
    }


QUERY_KEY_VALUE = r"\d+.self_attention.query_key_value.weight"
# How each version says that the rows of a matrix, 64 in all, are one part that is cut.
ONE_PART: dict[float, tuple[Any, dict[str, list[list[int]]]]] = {
    0.2: (1, {}),
    0.3: ((64,), {}),
    0.4: ((64,), {QUERY_KEY_VALUE: [[32, 32]]}),
}


@pytest.mark.parametrize("version", ONE_PART)
def test_patterns_of_every_version(version: float, ucprun: Path, tmp_path: Path) -> None:
    """Megatron's own patterns, with a padded vocabulary and halves, and one for its query, key and value."""

    def complete(info: dict[str, Any]) -> None:
        rows, widths = ONE_PART[version]
        info["universal_checkpoint_version"] = version
        info["parameter_with_sub_params"] = [
            {"patterns": [QUERY_KEY_VALUE], "shape": (rows, -1), "partition_dim": 0}
        ]
        if widths:
            info["sub_param_shard_widths"] = widths

    name = "llama_pp2_tp2_dp2"
    result = convert(ucprun, changed(tmp_path, complete, name), tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert f"0 of them by affine maps and 21 by patterns (`universal_checkpoint_info`, version {version}," in (
        result.stderr
    )
    assert wrong_tensors(tmp_path / "out", name) == []


def test_a_map_of_a_later_version_is_not_guessed(ucprun: Path, tmp_path: Path) -> None:
    """Fields added since could change what the others mean. A spec still serves."""

    def later(info: dict[str, Any]) -> None:
        info["affine_map"]["version"] = 2

    source = changed(tmp_path, later)
    result = convert(ucprun, source, tmp_path / "out")
    refused(result, tmp_path / "out", 2, "is of version 2, and this program reads version 1", "--spec")


def without(pattern: str) -> Change:
    """Takes every word about one tensor away."""

    def change(info: dict[str, Any]) -> None:
        del info["affine_map"]["params"][pattern]
        for key, patterns in info.items():
            if isinstance(patterns, list):
                info[key] = [one for one in patterns if one != pattern]

    return change


def test_what_nothing_describes_is_not_concatenated(ucprun: Path, tmp_path: Path) -> None:
    """DeepSpeed would make a norm of twice its length of it."""
    source = changed(tmp_path, without(NORM))
    result = convert(ucprun, source, tmp_path / "out")
    refused(result, tmp_path / "out", 1, "names no pattern for 1 of its 21 tensors, among them `model.norm.weight`",
            "say it with --spec")


def test_patterns_alone_leave_the_columns_open(ucprun: Path, tmp_path: Path) -> None:
    """As DeepSpeed before 0.19.7 wrote it: its column-parallel matrices have no pattern at all."""
    source = changed(tmp_path, lambda info: info.pop("affine_map"))
    result = convert(ucprun, source, tmp_path / "out")
    refused(result, tmp_path / "out", 1, "among them `model.layers.0.mlp.gate_proj.weight`", "--spec")


def test_what_the_metadata_calls_unsupported_is_refused_with_its_reason(ucprun: Path, tmp_path: Path) -> None:
    """In DeepSpeed's own words."""

    def unsupported(info: dict[str, Any]) -> None:
        without(DOWN)(info)
        info["autotp_unsupported_parameter_patterns"] = {DOWN: "the layout of this layer is not known"}

    source = changed(tmp_path, unsupported)
    result = convert(ucprun, source, tmp_path / "out")
    refused(result, tmp_path / "out", 2, "`model.layers.1.mlp.down_proj.weight`",
            "the layout of this layer is not known", "--spec")


def test_metadata_that_contradicts_the_files_is_refused(ucprun: Path, tmp_path: Path) -> None:
    """A map of other shapes, and two patterns for one name."""

    def other_shape(info: dict[str, Any]) -> None:
        info["affine_map"]["params"][DOWN]["ranks"][1]["shard_shape"] = [16, 14]

    result = convert(ucprun, changed(tmp_path, other_shape), tmp_path / "out")
    refused(result, tmp_path / "out", 2, "[16, 14] at tp=1, and the file has [16, 13]", "--spec")


def halved(info: dict[str, Any]) -> None:
    """As if every rank held half of the norm's values, as it holds a row-parallel bias."""
    for shard in info["affine_map"]["params"][NORM]["ranks"].values():
        for piece in shard["pieces"]:
            piece["scale"] = 0.5


def test_a_scaled_tensor_keeps_its_moments_to_itself(ucprun: Path, tmp_path: Path) -> None:
    """Its weights could be multiplied back; learning rate and epsilon of its moments could not."""
    result = convert(ucprun, changed(tmp_path, halved), tmp_path / "out")
    refused(result, tmp_path / "out", 2, "`model.norm.weight` is stored times 1 / 2", "`exp_avg` cannot be converted")


def test_a_scaled_weight_without_moments_is_what_deepspeed_rebuilds(
    ucprun: Path, engines: Engines, tmp_path: Path
) -> None:
    """A frozen one, in the files of a real run."""
    case = replace(CASES[NAME], name="autotp_frozen", model="autotp_frozen")
    engines.ask(Job(case, steps=1, save=tmp_path / "source"))
    source = change_in_place(tmp_path / "source", halved)
    result = convert(ucprun, source, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    stored = torch.load(next(source.glob("*/mp_rank_00_model_states.pt")), weights_only=False)
    shard = stored["module"]["model.norm.weight"]
    affine = ParamAffineMap.from_dict(stored["universal_checkpoint_info"]["affine_map"]["params"][NORM])
    (file,) = tag_folder(tmp_path / "out").glob("mp_rank_00_model_states.pt")  # Frozen tensors are written once.
    found = torch.load(file, weights_only=False)["module"]["model.norm.weight"]
    assert torch.equal(found, affine.rebuild({0: shard, 1: shard}))
    assert not torch.equal(found, shard)
