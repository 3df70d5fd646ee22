"""The drop-ins for DeepSpeed's scripts: their output is that of the scripts, and DeepSpeed loads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_native import OTHER_SEED
from universal import FIXTURES, describe_states, read_states, truth_of

PACKAGE = Path(os.environ.get("UCP_BIN", "bin")).parent / "python"
sys.path.insert(0, str(PACKAGE))

from ucp_checkpoint import Error, ds_to_universal, zero_to_fp32  # noqa: E402

# Where DeepSpeed's script works: each stage, a type of masters, buffers of several types, a tied head, frozen weights.
WORKS = ["alignment", "bf16_masters_zero2", "frozen_buffers_zero2", "zero1_dp2", "zero2_dp4", "zero3_frozen_dp4"]


def tag_of(name: str) -> str:
    """The folder of the tag, which DeepSpeed's script takes."""
    return (FIXTURES / name / "checkpoint" / "latest").read_text()


def command(module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """`python -m ucp_checkpoint.MODULE`."""
    return subprocess.run(
        [sys.executable, "-m", f"ucp_checkpoint.{module}", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def content(folder: Path) -> dict[str, Any]:
    """Of each file: the text of the index, and each tensor's type, shape and bytes."""
    found: dict[str, Any] = {}
    for file in folder.iterdir():
        if file.suffix == ".json":
            found[file.name] = json.loads(file.read_text())
            continue
        tensors = load_file(file) if file.suffix == ".safetensors" else torch.load(file, weights_only=True)
        found[file.name] = {
            name: (tensor.dtype, tensor.shape, tensor.detach().contiguous().numpy().tobytes())
            for name, tensor in tensors.items()
        }
    return found


@pytest.mark.parametrize(("size", "exclude"), [("5GB", False), ("20KB", True)])
@pytest.mark.parametrize("name", WORKS)
def test_the_same_files_as_zero_to_fp32(name: str, size: str, exclude: bool, tmp_path: Path) -> None:
    """Names, keys, types, elements, and which file has which; the safetensors of ties, which DeepSpeed cannot write,
    have the first name alone."""
    from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict as convert

    source = str(FIXTURES / name / "checkpoint")
    for safe in (False, True):
        ours, theirs = tmp_path / f"ours{safe}", tmp_path / f"theirs{safe}"
        zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(source, ours, size, safe, None, exclude)
        if safe and truth_of(name)["aliases"]:
            with pytest.raises(RuntimeError, match="share memory"):
                convert(source, str(theirs), size, safe, None, exclude)
            found = {key for file in ours.glob("*.safetensors") for key in load_file(file)}
            kept = truth_of(name)["tensors"].items()
            assert found == {key for key, entry in kept if not (exclude and entry["kind"] == "frozen")}
            continue
        convert(source, str(theirs), size, safe, None, exclude)
        assert content(ours) == content(theirs)
        assert all(load_file(file) for file in ours.glob("*.safetensors"))


def test_buffers_become_float32(tmp_path: Path) -> None:
    """Of a narrower type as DeepSpeed's script has them, and integers as they are."""
    from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict as convert

    source = tmp_path / "source"
    shutil.copytree(FIXTURES / "frozen_buffers_zero2" / "checkpoint", source)
    (file,) = source.glob("*/mp_rank_00_model_states.pt")
    state = torch.load(file, weights_only=False)
    state["module"]["shift"] = state["module"]["shift"].half()
    torch.save(state, file)
    zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(source, tmp_path / "ours")
    convert(str(source), str(tmp_path / "theirs"))
    ours = content(tmp_path / "ours")
    assert ours == content(tmp_path / "theirs")
    types = {name: entry[0] for name, entry in ours["pytorch_model.bin"].items()}
    assert (types["shift"], types["table"]) == (torch.float32, torch.int64)


@pytest.mark.parametrize("safe", [False, True])
def test_from_pretrained(safe: bool, tmp_path: Path) -> None:
    """The real class loads several files and their index: its weights are the masters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=101, hidden_size=16, intermediate_size=26, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    torch.manual_seed(3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(saved / "config.json", out)
    zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(saved, out, "20KB", safe)
    assert len(list(out.glob("*.index.json"))) == 1
    loaded = LlamaForCausalLM.from_pretrained(out).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


def test_the_engine_loads_the_universal_folder(engines: Engines, tmp_path: Path) -> None:
    """Beside the checkpoint, as DeepSpeed's script leaves it: twice as many ranks hold the same bits."""
    name = "fused_adam_zero2"
    root, folder = tmp_path / "saved", tmp_path / "saved" / f"{tag_of(name)}_universal"
    shutil.copytree(FIXTURES / name / "checkpoint", root)
    words = ["--num_extract_workers", "1", "--num_merge_workers", "2", "--keep_temp_folder", "--no_strict"]
    result = command(
        "ds_to_universal", "--input_folder", root / tag_of(name), "--output_folder", folder, *words,
        "--inject_missing_state",
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, f"wrote {folder}: 17 tensors\n"), result.stderr
    for option in ("keep_temp_folder", "no_strict", "inject_missing_state"):
        assert f"ds_to_universal: note: --{option} has no effect: " in result.stderr
    assert (root / "latest_universal").read_text() == folder.name
    assert sorted(path.name for path in root.iterdir()) == ["global_step4", folder.name, "latest", "latest_universal"]
    truth = truth_of(name)
    case = replace(CASES[name], mesh=Mesh(dp=4))
    answer = engines.ask(Job(case, seed=OTHER_SEED, load=root, first_step=truth["step"]))
    assert differences(truth, answer["loaded"], ["parameter"]) == []
    assert answer["loaded"]["step"] == truth["step"]


@pytest.mark.parametrize("name", ["zero1_dp2", "zero2_dp4", "frozen_buffers_zero2"])
def test_the_same_states_as_ds_to_universal(
    name: str, convert_with_deepspeed: Callable[[str], Path | str], tmp_path: Path
) -> None:
    """The same files of states and the same elements. DeepSpeed also writes tensors that the optimizer does not have,
    which its engine does not read there. An empty folder may stand there."""
    theirs = convert_with_deepspeed(name)
    assert isinstance(theirs, Path), theirs
    ours = tmp_path / "new" / f"{tag_of(name)}_universal"
    ours.mkdir(parents=True)
    ds_to_universal.convert(FIXTURES / name / "checkpoint" / tag_of(name), ours)
    assert (ours.parent / "latest_universal").read_text() == (theirs / "latest_universal").read_text()
    theirs /= ours.name
    trees = [{file.relative_to(folder) for file in folder.glob("zero/**/*.pt")} for folder in (ours, theirs)]
    truth = truth_of(name)
    others = {key for key, entry in truth["tensors"].items() if entry["kind"] != "parameter"} | set(truth["aliases"])
    assert trees[1] - trees[0] == {Path("zero") / key / "fp32.pt" for key in others}
    assert trees[0] < trees[1] if others else trees[0] == trees[1]
    described = [describe_states(read_states(folder))["tensors"] for folder in (ours, theirs)]
    assert described[0] == {key: states for key, states in described[1].items() if key not in others}


def test_the_command_line_of_zero_to_fp32(tmp_path: Path) -> None:
    """Its words, a tag by name, and a folder in which other files are."""
    root = FIXTURES / "zero1_dp4" / "checkpoint"
    for name in ("config.json", "pytorch_model.txt"):
        (tmp_path / name).write_text("{}")
    result = command("zero_to_fp32", root, tmp_path, "-t", tag_of("zero1_dp4"), "-d", "--max_shard_size", "40KB")
    assert result.returncode == 0, result.stderr
    assert "note: --debug has no effect" in result.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    index = "pytorch_model.bin.index.json"
    written = [*(f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)), index]
    assert names == ["config.json", *written, "pytorch_model.txt"]
    assert [Path(line.removeprefix("wrote ")).name for line in result.stdout.splitlines()] == written


REFUSALS = [
    ("ds_to_universal", ["--input_folder", "{source}"], 1, "arguments are required: --output_folder"),
    ("ds_to_universal", ["--input_folder", "{source}", "--output_folder", "{full}"], 1, "`{full}` exists; remove it"),
    ("ds_to_universal", ["--input_folder", "none", "--output_folder", "{out}"], 2, "`none` does not exist"),
    ("ds_to_universal", ["--input_folder", "{source}", "--output_folder", "{full}/file/out"], 2, "is not a folder"),
    (
        "ds_to_universal", ["--input_folder", "{source}", "--output_folder", "{out}", "--num_merge_workers", "0"], 1,
        "--num_merge_workers is a number from 1 to 256, not 0",
    ),
    ("zero_to_fp32", ["{source}", "{full}"], 1, "`{full}/pytorch_model.bin` exists; remove it"),
    ("zero_to_fp32", ["{source}", "{full}/file"], 1, "`{full}/file` is not a folder"),
    ("zero_to_fp32", ["{source}", "{out}", "--tag", "none"], 2, "none` does not exist"),
    ("zero_to_fp32", ["{source}", "{out}", "--max_shard_size", "5 pounds"], 1, "max_shard_size takes a number"),
    ("zero_to_fp32", ["{source}", "{out}", "--shards", "5"], 1, "unrecognized arguments: --shards 5"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "words", "code", "sentence"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusals(
    module: str, words: list[str], code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, the documented exit code, and nothing is written."""
    full = tmp_path / "full"
    full.mkdir()
    for file in ("file", "pytorch_model.bin"):
        (full / file).write_text("mine")
    places = {"source": FIXTURES / "zero1_dp1" / "checkpoint", "out": tmp_path / "new" / "out", "full": full}
    main = {"ds_to_universal": ds_to_universal, "zero_to_fp32": zero_to_fp32}[module].main
    try:
        assert main([word.format(**places) for word in words]) == code
    except SystemExit as exit:
        assert exit.code == code
    said = capsys.readouterr().err
    assert f"{module}: error: " in said
    assert sentence.format(**places) in said
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "pytorch_model.bin"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """Of the second file of several, when the first one is written."""
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / "zero3_dp4" / "checkpoint", source)
    (file,) = source.glob("*/bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt")
    masters = torch.load(file, weights_only=False)["optimizer_state_dict"]["fp32_flat_groups"][0]
    damaged = bytearray(file.read_bytes())
    damaged[damaged.index(masters.detach().numpy().tobytes())] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(Error, match=r"checksum|CRC"):
        zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(source, tmp_path / "out", "4KB")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
