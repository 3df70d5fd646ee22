"""Experts over ranks: a spec can place them, and a wrong idea of who has which expert is seen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from fixtures.fingerprints import differences
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

SPEC = """ucp 1
dim hidden
dim experts
dim inner
dim ffn
dim vocabulary
mesh pp, dp, tp, edp, ep
layout mixture {
  "{embed|head}.weight" [vocabulary, hidden]
  "norm.{weight|bias}"  [hidden]
  "tone"                [3]
  block "blocks.{0|2}" {
    "norm.{weight|bias}" [hidden]
    "up.weight"          [ffn, hidden]
    "up.bias"            [ffn]
    "down.weight"        [hidden, ffn]
    "down.bias"          [hidden]
  }
  block "blocks.{1|3}" {
    "norm.{weight|bias}"               [hidden]
    "moe.deepspeed_moe.gate.wg.weight" [experts, hidden]
    block "moe.deepspeed_moe.experts.deepspeed_experts.{e: experts@ep}" {
      "up.weight"   [inner, hidden]
      "up.bias"     [inner]
      "down.weight" [hidden, inner]
      "down.bias"   [hidden]
    }
  }
}
"""


def convert(ucprun: Path, source: Path, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(ucprun), "convert", str(source), str(output), "--to", "universal", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["moe_ep2_dp4", "moe_ep2_dp4_data_first"])
def test_a_spec_places_experts(name: str, ucprun: Path, tmp_path: Path) -> None:
    (tmp_path / "experts.ucp").write_text(SPEC)
    source = FIXTURES / name / "checkpoint"
    result = convert(ucprun, source, tmp_path / "out", "--spec", str(tmp_path / "experts.ucp"))
    assert result.returncode == 0, result.stderr
    ours = describe_states(read_states(tag_folder(tmp_path / "out")))
    assert differences(truth_of(name), ours, ["parameter"]) == []


def test_a_spec_that_places_them_elsewhere_is_refused(ucprun: Path, tmp_path: Path) -> None:
    (tmp_path / "experts.ucp").write_text(SPEC.replace("experts@ep", "experts@ep(list [[0, 2], [1, 3]])"))
    source = FIXTURES / "moe_ep2_dp4" / "checkpoint"
    result = convert(ucprun, source, tmp_path / "out", "--spec", str(tmp_path / "experts.ucp"))
    assert result.returncode == 1
    assert "deepspeed_experts.1." in result.stderr
    assert not (tmp_path / "out").exists()


def test_other_owners_than_the_engines_are_seen(ucprun: Path, tmp_path: Path) -> None:
    """The configuration says how expert ranks are counted; were it wrong, masters and weights would not fit."""
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / "moe_ep2_dp4" / "checkpoint", copy)
    path = copy / (copy / "latest").read_text() / "mp_rank_00_model_states.pt"
    states = torch.load(path, weights_only=False)
    states["ds_config"]["use_data_before_expert_parallelism"] = True
    torch.save(states, path)
    result = convert(ucprun, copy, tmp_path / "out")
    assert result.returncode == 2
    assert "are not the rounding of their masters" in result.stderr
    assert "deepspeed_experts.2." in result.stderr
    assert not (tmp_path / "out").exists()
