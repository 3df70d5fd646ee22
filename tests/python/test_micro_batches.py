"""`ucp.healing.MicroBatches`: the gradient of a global batch is that of one process, whichever replicas are lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.testing._internal.distributed import fake_pg  # noqa: F401  It adds the backend `fake`.

import micro_batches_work as ranks
import ucp_checkpoint as ucp
from ucp_checkpoint import _micro_batches

WORK = Path(__file__).with_name("micro_batches_work.py")
LAST = 6  # Message of a reduction, behind one for each of the six segments.
MESSAGES = range(LAST + 1) if os.environ.get("UCP_EVERY_CELL") == "1" else (0, 3, LAST)  # All with tests/run.sh --full.


def case(dies: dict[str, list[Any]], count: int = 3, **words: Any) -> dict[str, Any]:
    """Of eight micro-batches in each of two iterations."""
    return {"ranks": count, "batch": 8, "iterations": 2, "dies": dies, **words}


def reduced(count: int, side: str, **words: Any) -> dict[str, Any]:
    """The last one of three ends at a message."""
    return case({"2": [0, "reduce", count, side]}, **words)


CASES = {
    "none": case({}, anew=True),
    "first-rank": case({"0": [1, "compute", 2, "after"]}),
    "random": case({"1": [0, "reduce", 3, "before"]}, whole=False),
    "together": case({"1": [0, "compute", 1, "before"], "3": [0, "compute", 1, "before"]}, 4),
    "in-turn": case({"1": [0, "reduce", 2, "after"], "0": [1, "compute", 0, "after"]}, 4),
    "in-recovery": case({"1": [0, "compute", 1, "before"], "2": [0, "compute", 2, "before"]}, 4),
    **{f"compute-{count}": case({"1": [0, "compute", count, "before"]}) for count in range(3)},
    **{f"reduce-{count}-{side}": reduced(count, side) for count in MESSAGES for side in ("before", "after")},
    **{f"missed-{count}": reduced(count, "after", misses={"0": [0, count]}) for count in MESSAGES},
    "stopped": case({"3": [0, "reduce", 2, "before"]}, 4, stops={"2": [0, "reduce", 2, "before"]}),
    "missed-by-two": case({"1": [0, "reduce", 6, "after"]}, 4, misses={"0": [0, 6], "3": [0, 5]}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, and the files of their ranks."""
    folder = tmp_path_factory.mktemp("cases")
    command = [sys.executable, str(WORK), str(folder), json.dumps(CASES)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stderr
    return folder


def of_one_process(case: dict[str, Any], iteration: int) -> list[torch.Tensor]:
    """All micro-batches in turn, and the division by their number."""
    kind = ranks.kind_of(case)
    model = ranks.model_of(kind)
    for index in range(case["batch"]):
        model(ranks.samples_of(index, iteration, kind, case.get("whole", True))).sum().backward()
    return [parameter.grad / case["batch"] for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("name", CASES)
def test_the_gradients_are_those_of_one_process(folder: Path, name: str) -> None:
    """On each rank that is left, of both iterations. Other numbers than whole ones are equal within rounding."""
    case = CASES[name]
    for error in folder.glob(f"{name}-?-error"):
        raise AssertionError(f"{error.name}: {error.read_text()}")
    left = [rank for rank in range(case["ranks"]) if str(rank) not in case["dies"] | case.get("stops", {})]
    for iteration in range(case["iterations"]):
        expected = of_one_process(case, iteration)
        for rank in left:
            found = torch.load(folder / f"{name}-{rank}-{iteration}")
            for own, other in zip(found, expected, strict=True):
                if case.get("whole", True):
                    assert torch.equal(own, other), f"rank {rank}, iteration {iteration}"
                else:
                    torch.testing.assert_close(own, other, rtol=1e-12, atol=1e-12)
    for rank in left:
        assert json.loads((folder / f"{name}-{rank}-ranks").read_text()) == left


def test_deals() -> None:
    """Each micro-batch has one rank; the first ones have one more; those of lost ranks go around."""
    assert _micro_batches.deal(8, [0, 1, 2]) == [0, 0, 0, 1, 1, 1, 2, 2]
    assert _micro_batches.deal(2, [4, 5, 6]) == [4, 5]
    assert _micro_batches.deal_again([0, 0, 0, 1, 1, 1, 2, 2], [0, 2]) == [0, 0, 0, 0, 2, 0, 2, 2]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A job of one rank."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("kind", "total", "value"), [(torch.float16, 4, 60000.0), (torch.bfloat16, 512, 1.0)])
@pytest.mark.usefixtures("alone")
def test_the_sum_of_small_types(kind: torch.dtype, total: int, value: float) -> None:
    """It is too large for float16, and too large for bfloat16 to count on by one."""
    parameter = torch.nn.Parameter(torch.zeros(2, 3, dtype=kind))

    def compute(index: int) -> None:
        parameter.grad = torch.full_like(parameter, value)

    ucp.healing.MicroBatches(total).run([parameter], compute)
    assert parameter.grad is not None
    assert torch.equal(parameter.grad, torch.full((2, 3), value, dtype=kind))


@pytest.mark.usefixtures("alone")
def test_nothing_is_run_after_an_error() -> None:
    """The other ranks may have reduced what this one has not. A refusal before the iteration changes nothing."""
    parameter = torch.nn.Parameter(torch.zeros(2))
    batches = ucp.healing.MicroBatches(2)

    def fail(index: int) -> None:
        raise MemoryError

    def compute(index: int) -> None:
        parameter.grad = torch.ones(2)

    with pytest.raises(ucp.Error, match="none of the parameters"):
        batches.run([], compute)
    batches.run([parameter], compute)
    with pytest.raises(MemoryError):
        batches.run([parameter], fail)
    with pytest.raises(ucp.Error, match=r"an earlier run\(\) ended with an error"):
        batches.run([parameter], compute)


def test_a_rank_that_does_not_come() -> None:
    """The others refuse to begin without it. This job of two ranks has one process."""
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=2)
    try:
        with pytest.raises(ucp.Error, match=r"^the ranks do not connect in 0\.5 s: .*; start all of them within"):
            ucp.healing.MicroBatches(2, patience=0.5)
        with pytest.raises(ucp.Error, match="rank 0 is not in the group"):
            ucp.healing.MicroBatches(2, dist.GroupMember.NON_GROUP_MEMBER)
    finally:
        dist.destroy_process_group()


def test_refusals(tmp_path: Path) -> None:
    """Where the sum would be another one, and what is not a number."""
    with pytest.raises(ucp.Error, match=r"torch\.distributed is not initialised"):
        ucp.healing.MicroBatches(8)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for total in (0, True, 2.5):
            with pytest.raises(ucp.Error, match="total is a number from 1 to"):
                ucp.healing.MicroBatches(total)  # type: ignore[arg-type]
        with pytest.raises(ucp.Error, match="patience is 0, and must be"):
            ucp.healing.MicroBatches(8, patience=0)
        batches = ucp.healing.MicroBatches(2)
        with pytest.raises(ucp.Error, match="none of the parameters needs a gradient"):
            batches.run([], lambda index: None)
        mesh = dist.init_device_mesh("cpu", (1,))
        cut = torch.nn.Parameter(dist.tensor.distribute_tensor(torch.ones(2), mesh))
        with pytest.raises(ucp.Error, match="a parameter is cut over the ranks"):
            batches.run([cut], lambda index: None)
        flat = FullyShardedDataParallel(torch.nn.Linear(2, 2), device_id=torch.device("cpu"))
        with pytest.raises(ucp.Error, match="a parameter is cut over the ranks"):
            batches.run(flat.parameters(), lambda index: None)
        table = torch.nn.Embedding(3, 2, sparse=True)
        with pytest.raises(ucp.Error, match="a gradient is sparse"):
            batches.run(table.parameters(), lambda index: table(torch.tensor([index])).sum().backward())
    finally:
        dist.destroy_process_group()
