"""Two conversions that DeepSpeed's converter finishes without a word, and gets wrong. Ours are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import NOISE, OTHER_SEED
from universal import describe_states, read_states, tag_folder, truth_of

Converted = Callable[[str], Path | str]

# Of the 41 tensors of the fixture.
SCRAMBLED = 40


def wrong_tensors(truth: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """The names of the trained tensors with any state that differs."""
    return {difference.split()[0] for difference in differences(truth, other, ["parameter"])}


def test_round_robin_gradients(convert: Callable[..., Path], convert_with_deepspeed: Converted) -> None:
    """DeepSpeed cuts the flat vector at the addresses of another order of the parameters."""
    truth = truth_of("round_robin")
    theirs = convert_with_deepspeed("round_robin")
    assert isinstance(theirs, Path), theirs
    scrambled = wrong_tensors(truth, describe_states(read_states(tag_folder(theirs))))
    ours = wrong_tensors(truth, describe_states(read_states(tag_folder(convert("round_robin")))))
    print(f"DeepSpeed scrambles {len(scrambled)} of {len(truth['tensors'])} tensors, ours {len(ours)}")
    assert len(scrambled) == SCRAMBLED
    assert ours == set()


def test_one_tensor_rank_to_two(
    engines: Engines, convert: Callable[..., Path], convert_with_deepspeed: Converted
) -> None:
    """A source without tensor parallelism has no row-parallel patterns, so DeepSpeed cuts those matrices by rows.

    The sizes match, there is no message, and the model is another one. The spec knows the axis.
    """
    name = "gpt_pp1_tp1_dp2"
    truth = truth_of(name)
    case = replace(CASES[name], mesh=Mesh(pp=1, tp=2, dp=1))
    theirs = convert_with_deepspeed(name)
    assert isinstance(theirs, Path), theirs
    answers = {}
    for whose, folder in (("theirs", theirs), ("ours", convert(name, "universal:mp=2"))):
        job = Job(case, seed=OTHER_SEED, load=folder, first_step=truth["step"], further_steps=case.further_steps)
        answers[whose] = engines.ask(job)
    layers = range(3, 3 + 4)
    row_parallel = {f"{i}.{matrix}.weight" for i in layers for matrix in ("self_attention.dense", "mlp.dense_4h_to_h")}
    assert wrong_tensors(truth, answers["theirs"]["loaded"]) == row_parallel
    assert wrong_tensors(truth, answers["ours"]["loaded"]) == set()

    def furthest(losses: list[float]) -> float:
        return max(abs(a - b) for a, b in zip(losses, truth["losses"][truth["step"] :], strict=True))

    first = [answers["theirs"]["losses"][0], answers["ours"]["losses"][0], truth["losses"][truth["step"]]]
    print("loss after the load: {:.3f} from DeepSpeed's folder, {:.3f} from ours, {:.3f} uninterrupted".format(*first))
    assert furthest(answers["ours"]["losses"]) <= NOISE["bf16"]
    assert furthest(answers["theirs"]["losses"]) > 20 * NOISE["bf16"]
