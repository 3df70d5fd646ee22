"""`ucp.inspect` says what `ucprun inspect --json` says, of good and of bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import ucp_checkpoint as ucp

GPT = "gpt_pp2_tp2_dp2"


def told(ucprun: Path, *arguments: str | Path) -> dict:
    """The output of the program."""
    result = subprocess.run(
        [ucprun, "inspect", *arguments, "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    return json.loads(result.stdout)


def test_as_the_program(ucprun: Path, fixtures: Path) -> None:
    """Without a spec, and with one of the catalogue, which comes with the package."""
    checkpoint = fixtures / GPT / "checkpoint"
    assert ucp.inspect(checkpoint) == told(ucprun, checkpoint)
    spec = "megatron_deepspeed_gpt"
    with_spec = ucp.inspect(str(checkpoint), spec=spec, tensor="*.bias")
    assert with_spec == told(ucprun, checkpoint, "--spec", spec, "--tensor", "*.bias")
    assert with_spec["tensors"]
    assert with_spec != ucp.inspect(checkpoint, tensor="*.bias")  # The ranks' shapes.


def test_settings(fixtures: Path) -> None:
    """As a mapping or as the command line has them."""
    checkpoint = fixtures / "autotp_tp2_dp2" / "checkpoint"
    sizes = {"layers": 2, "heads": 8, "kv_heads": 4, "ffn": 26}
    whole = ucp.inspect(checkpoint, spec="llama", sets=sizes)
    assert whole == ucp.inspect(checkpoint, spec="llama", sets=[f"{name}={size}" for name, size in sizes.items()])
    with pytest.raises(ucp.Error, match=r"no tensor `model\.layers\.2") as failure:
        ucp.inspect(checkpoint, spec="llama", sets=sizes | {"layers": 3})
    assert failure.value.code == "spec"


def test_errors_are_the_programs_sentences(ucprun: Path, fixtures: Path, tmp_path: Path) -> None:
    """Of a path that is not there, a folder without a checkpoint, a damaged file and a senseless request."""
    damaged = tmp_path / "damaged"
    shutil.copytree(fixtures / GPT / "checkpoint", damaged)
    for file in damaged.rglob("mp_rank_00_model_states.pt"):
        file.write_bytes(file.read_bytes()[:100])
    for path in (tmp_path / "missing", tmp_path, damaged):
        with pytest.raises(ucp.Error) as failure:
            ucp.inspect(path)
        error = told(ucprun, path)["error"]
        assert (failure.value.code, str(failure.value)) == (error["code"], error["message"])
    with pytest.raises(ucp.Error, match=r"none of the .* tensors in .* has a name that fits `nope\.\*`") as pattern:
        ucp.inspect(fixtures / GPT / "checkpoint", tensor="nope.*")
    assert pattern.value.code == "usage"
    with pytest.raises(ucp.Error, match="no spec= is named") as usage:
        ucp.inspect(fixtures / GPT / "checkpoint", sets={"layers": 4})
    assert usage.value.code == "usage"


def test_a_wrong_spec_brings_its_diagnostics(fixtures: Path) -> None:
    """All of them, with their places."""
    with pytest.raises(ucp.Error, match=r"^1 error in .*\n.*two sources disagree.*\[dim-disagreement\]") as failure:
        ucp.inspect(fixtures / GPT / "checkpoint", spec="megatron_deepspeed_gpt", sets={"layers": 7})
    assert failure.value.code == "spec"
    assert "note: `layers` is 4, read from `args.num_layers`" in str(failure.value)
