"""States that Megatron Core itself shifted, put back by `--repair`: each element as the run had it that saved them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.megatron_core_cases import LLAMA, MIXTURE, SHIFTED, MegatronCase
from fixtures.ranks import run_ranks
from universal import FIXTURES, read_states, tag_folder

Values = dict[tuple[str, str], torch.Tensor]

# Of several tensor-parallel ranks, whose copies of norms are saved by the first; of experts in buffers of their own;
# and of the usual size of buckets, where only the tied embedding has one of its own.
CASES = [
    SHIFTED,
    replace(SHIFTED, model=SHIFTED.model | {"hidden_size": 20, "make_vocab_size_divisible_by": 1}, bucket_size=None),
    MegatronCase("", LLAMA, tp=2, dp=2, bucket_size=700),
    MegatronCase("", MIXTURE, dp=2, ep=2, bucket_size=600),
]


def saved(case: MegatronCase, folder: Path) -> Values:
    """Saves the run, and returns what it holds."""

    def on_rank() -> Values:
        from fixtures.megatron_core_run import Run
        from fixtures.megatron_core_truth import values_of

        run = Run(case)
        run.train()
        values = values_of(run)
        run.save(folder)
        return values

    values: Values = run_ranks(case.world, on_rank)
    return values


def lost_in(text: str, values: Values) -> dict[str, torch.Tensor]:
    """The elements of each tensor that are in a box that the program names."""
    lost = {
        key: torch.zeros(value.shape, dtype=torch.bool) for (key, state), value in values.items() if state == "fp32"
    }
    for key, box in re.findall(r"`(\S+)`\[([\d:, ]+)\] is stored nowhere", text):
        places = [[int(number) for number in part.split(":")] for part in box.split(", ")]
        lost[key][tuple(slice(place[0], place[-1] + (len(place) == 1)) for place in places)] = True
    return lost


@pytest.mark.parametrize("case", CASES, ids=str)
def test_repaired(case: MegatronCase, ucprun: Path, tmp_path: Path) -> None:
    """All that is stored anywhere comes back. Of the rest, the masters are the weights, and the moments zeros."""
    values = saved(case, tmp_path / "iter_0001000")
    convert = [str(ucprun), "convert", str(tmp_path / "iter_0001000")]
    plain = subprocess.run([*convert, str(tmp_path / "plain"), "--to", "universal"], capture_output=True, check=False)
    assert plain.returncode == 2
    command = [*convert, str(tmp_path / "out"), "--to", "universal", "--repair"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    lost = lost_in(" ".join((answer.stdout + answer.stderr).split()), values)
    stored = stored_masters(tmp_path / "iter_0001000")
    assert any(bool(places.any()) for places in lost.values())
    states: dict[str, dict[str, Any]] = read_states(tag_folder(tmp_path / "out"))
    for (key, state), value in values.items():
        if state == "weight":
            continue
        found = states[key][state]["param"]
        assert torch.equal(found[~lost[key]], value[~lost[key]]), (key, state)
        left = values[key, "weight"].float() if state == "fp32" else torch.zeros_like(value)
        assert torch.equal(found[lost[key]], left[lost[key]]), (key, state)
        if state == "fp32":  # Numbers that stand nowhere else.
            assert not stored & set(value[lost[key]].tolist()), key


def stored_masters(folder: Path) -> set[float]:
    """All that are in the files, wherever."""
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = FileSystemReader(folder)
    entries = reader.read_metadata().state_dict_metadata
    wanted = {
        key: torch.empty(entry.size) for key, entry in entries.items() if key.startswith("optimizer.state.param.")
    }
    load(wanted, storage_reader=reader)
    return {number for value in wanted.values() for number in value.reshape(-1).tolist()}


def test_without_the_comparison(ucprun: Path, tmp_path: Path) -> None:
    """Only that shows that the states are shifted: sound ones would be shifted otherwise."""
    folder = FIXTURES / "megatron_core" / "llama_tp2_pp2_dp2" / "checkpoint"
    command = [ucprun, "convert", folder, tmp_path / "out", "--to", "universal", "--repair", "--replicas", "trust"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "--repair needs the comparison of weights with their masters" in answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("megatron_core/llama_tp2_pp2_dp2", 2, "nothing is shifted"),
        ("megatron_core/llama_own_buffers_tp2_pp2_dp2", 1, "shifts states of `fully_reshardable` alone"),
        ("zero1_dp2", 1, "of which no fault is known that can be repaired"),
    ],
)
def test_nothing_to_repair(source: str, status: int, words: str, ucprun: Path, tmp_path: Path) -> None:
    folder = FIXTURES / source / "checkpoint"
    command = [str(ucprun), "convert", str(folder), str(tmp_path / "out"), "--to", "universal", "--repair"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == status
    assert words in " ".join(answer.stderr.split())
    assert not (tmp_path / "out").exists()
