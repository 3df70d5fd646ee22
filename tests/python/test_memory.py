"""`ucp.memory.Tier`: killed jobs go on from memory, with the bits and losses of one that was never stopped."""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import job
import memory_work
import ucp_checkpoint as ucp
from memory_work import STEPS
from writers import supervisor_of, wait_until, worker_of


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Its losses."""
    told = job.run(memory_work.train, 2, tmp_path_factory.mktemp("job"), root="")
    losses: dict[str, float] = told[0]["losses"]
    return losses


def killed(folder: Path, step: int, seconds: float = 0, ranks: int = 2, **arguments: Any) -> None:
    """A job whose ranks are all killed, a moment after it has finished this step."""
    folder.mkdir(exist_ok=True)
    processes = job.start(memory_work.train, ranks, folder / f"store {random.random()}", root=str(folder), **arguments)
    until = time.monotonic() + 120
    while not (folder / "steps" / f"{step}.pt").exists():
        assert time.monotonic() < until
        assert all(process.poll() is None for process in processes), processes[0].communicate()
        time.sleep(0.002)
    time.sleep(seconds)
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()


def versions_in(folder: Path) -> list[str]:
    """Their names, without what is hidden."""
    return sorted(path.name for path in (folder / "memory" / "job").glob("step-*"))


def test_a_killed_job_goes_on(uninterrupted: dict[str, float], tmp_path: Path) -> None:
    """Twice; on the same ranks the losses are those of a job that was never stopped, to the bit."""
    killed(tmp_path, 3, tier={"every": 1})
    killed(tmp_path, 7, 0.005, tier={"every": 1})
    (told, *_) = job.run(memory_work.train, 2, tmp_path, root=str(tmp_path), seed=99, tier={"every": 1})
    assert told["restored"]["step"] >= 5
    assert told["restored"]["state"] == []
    assert told["restored"]["ranks"] == [0, 1]
    assert told["losses"] == {step: uninterrupted[step] for step in told["losses"]}
    assert len(told["losses"]) == STEPS - 1 - told["restored"]["step"]
    assert told["report"]["failures"] == 0
    assert versions_in(tmp_path) == []  # It has ended well.


@pytest.mark.parametrize(("parallel", "ranks"), [("fsdp2", 4), ("ddp", 1)])
def test_on_other_ranks(parallel: str, ranks: int, tmp_path: Path) -> None:
    """More of them, or one: the same bits."""
    killed(tmp_path, 3, 0.01, tier={"every": 2})
    for told in job.run(
        memory_work.train, ranks, tmp_path, root=str(tmp_path), parallel=parallel, size=ranks, seed=99, tier={}
    ):
        assert told["restored"]["step"] in (0, 2)
        assert told["restored"]["state"] == []
        assert told["restored"]["ranks"] == [0, 1]


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_any_moment(seed: int, tmp_path: Path) -> None:
    """A version is complete, or none; what is restored is a step that was made."""
    random.seed(seed)
    killed(tmp_path, random.randint(1, 4), random.random() / 20, tier={"every": 1})
    told = job.run(memory_work.train, 2, tmp_path, root=str(tmp_path), seed=99, tier={"every": 1})
    restored = told[0]["restored"]
    assert restored is None or restored["state"] == []  # None: the first version was not complete yet.


@pytest.mark.parametrize("machines", ["", "ab"])
def test_a_rank_dies_within_a_capture(machines: str, tmp_path: Path) -> None:
    """The version is on no rank; the one before is there, which all had staged."""
    job_of: dict[str, Any] = {"root": str(tmp_path), "tier": {"every": 1}, "machines": machines}
    processes = job.start(memory_work.train, 2, tmp_path / "first", dies=4, **job_of)
    ends = [process.communicate(timeout=120) and process.returncode for process in processes]
    assert (ends[0] > 0, ends[1]) == (True, -signal.SIGKILL)  # The training of the other one could not go on.
    last = max(int(path.stem) for path in (tmp_path / "steps").glob("*.pt"))
    told = job.run(memory_work.train, 2, tmp_path, seed=99, **job_of)
    # While copies are on their way to another machine, no version is made: then it dies later, and more is lost.
    assert told[0]["restored"]["step"] < last if machines else told[0]["restored"]["step"] == last - 1 == 2
    assert told[0]["restored"]["state"] == []


def a_job(
    folder: Path, size: int = 64, **settings: Any
) -> tuple[torch.nn.Module, torch.optim.Optimizer, ucp.memory.Tier]:
    """Of one process."""
    torch.manual_seed(1)
    model = torch.nn.Linear(size, size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    tier = ucp.memory.Tier(
        model, optimizer, **({"job": "one", "directory": folder, "no_dist": True, "every": 1} | settings)
    )
    return model, optimizer, tier


def take_steps(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tier: ucp.memory.Tier, steps: range
) -> list[torch.Tensor]:
    """The weights after each of them."""
    weights = []
    for step in steps:
        model(torch.full((1, model.in_features), float(step))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        weights.append(model.weight.detach().clone())
        tier.step(step)
    return weights


def wait_for_version(folder: Path, name: str) -> Path:
    """When the one before it is removed."""
    wait_until(lambda: [path.name for path in folder.glob("step-*")] == [name])
    return folder / name


def abandon(tier: ucp.memory.Tier) -> None:
    """As a job that ends with an error."""
    tier.__exit__(RuntimeError, RuntimeError(), None)


def test_a_damaged_version_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Storage is, with a warning; without it, the job does not begin from nothing unasked."""
    model, optimizer, tier = a_job(tmp_path / "memory", fallback=tmp_path / "storage", persist_every=2)
    weights = take_steps(model, optimizer, tier, range(4))
    abandon(tier)
    file = wait_for_version(tmp_path / "memory" / "one", "step-3") / "__0_0.distcp"
    content = bytearray(file.read_bytes())
    place = content.find(weights[3].numpy().tobytes())
    assert place > 0
    content[place + 100] ^= 4
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        model, _, tier = a_job(tmp_path / "memory", fallback=tmp_path / "storage")
    assert tier.restored is not None
    assert Path(tier.restored.path) == tmp_path / "storage" / "step-3"
    assert torch.equal(model.weight, weights[3])
    assert "ucp.memory cannot read a version" in caplog.text
    tier.close(keep=True)


def test_nothing_but_a_damaged_version(tmp_path: Path) -> None:
    """The job does not begin anew unasked."""
    model, optimizer, tier = a_job(tmp_path)
    take_steps(model, optimizer, tier, range(2))
    abandon(tier)
    version = wait_for_version(tmp_path / "one", "step-1")
    (version / ".metadata").write_bytes(b"nothing")
    with pytest.raises(ucp.Error, match=r"no version of the job can be read: `.*step-1`"):
        a_job(tmp_path)


def test_settings_and_extra_come_back(tmp_path: Path) -> None:
    """Learning rates, and what the job gave."""
    model, optimizer, tier = a_job(
        tmp_path, extra=lambda: {"seen": [1, 2], "name": "x", "random": torch.get_rng_state()}
    )
    optimizer.param_groups[0]["lr"] = 0.125
    take_steps(model, optimizer, tier, range(2))
    state = torch.get_rng_state()
    abandon(tier)
    _, optimizer, tier = a_job(tmp_path)
    assert optimizer.param_groups[0]["lr"] == 0.125
    assert tier.restored is not None
    assert tier.first_step == 2
    (extra,) = tier.restored.extras
    assert (extra["seen"], extra["name"], torch.equal(extra["random"], state)) == ([1, 2], "x", True)
    tier.close()
    _, _, tier = a_job(tmp_path)
    assert tier.restored is None  # The job before had ended well.
    tier.close()


def test_a_start_waits_for_the_writer(tmp_path: Path) -> None:
    """Of an earlier start, which is about to complete a version, and then removes the one before."""
    model, optimizer, tier = a_job(tmp_path, size=2048)
    writer = worker_of(supervisor_of(os.getpid()))
    for step in itertools.count():  # Until the writer is stopped in time.
        take_steps(model, optimizer, tier, range(step, step + 1))
        assert tier._kept.saving is not None
        tier._kept.saving.staged.result()
        os.kill(writer, signal.SIGSTOP)
        if step > 0 and not (tmp_path / "one" / f"step-{step}").exists():
            break
        os.kill(writer, signal.SIGCONT)
    weights = model.weight.detach().clone()
    tier._kept.saver._client.close()  # As a job that is gone, and whose writer is not.
    tier._folder.release()
    problem = f"an earlier start of the job `one` is still written for by process {writer} on this machine, which has "
    with pytest.raises(ucp.Error, match=f"{problem}not ended within 0.2 s; end that process, or name another job"):
        a_job(tmp_path, size=2048, timeout=0.2)
    os.kill(writer, signal.SIGCONT)
    model, _, tier = a_job(tmp_path, size=2048)
    assert tier.restored is not None
    assert tier.restored.step == step
    assert torch.equal(model.weight, weights)
    tier.close()


def test_what_killed_writers_leave(tmp_path: Path) -> None:
    """The next start removes it: it is memory."""
    for folder in (tmp_path / "one", tmp_path / "one" / "parts"):
        (folder / ".step-7.ucp-partial").mkdir(parents=True)
        (folder / ".step-7.ucp-partial" / "__0_0.distcp").write_bytes(b"half")
        (folder / ".step-7.ucp-lock").touch()
    (tmp_path / "one").chmod(0o700)
    _, _, tier = a_job(tmp_path)
    assert sorted(path.name for path in (tmp_path / "one").rglob("*")) == ["lock", "parts", "writers"]
    assert tier.restored is None
    tier.close()


def test_one_version_stays(tmp_path: Path) -> None:
    """And the memory of those before is given back."""
    model, optimizer, tier = a_job(tmp_path)
    take_steps(model, optimizer, tier, range(6))
    abandon(tier)
    wait_for_version(tmp_path / "one", "step-5")
    model, optimizer, tier = a_job(tmp_path)
    shutil.copytree(tmp_path / "one" / "step-5", tmp_path / "one" / "step-100")  # Finished after the job had died.
    take_steps(model, optimizer, tier, range(6, 9))
    abandon(tier)
    newest = wait_for_version(tmp_path / "one", "step-8")
    assert ucp.inspect(f"memory:{tmp_path / 'one'}") == ucp.inspect(newest)
    with pytest.raises(ucp.Error, match="there are no versions of a job in"):
        ucp.inspect(f"memory:{tmp_path / 'two'}")


def test_the_interval_is_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From how long a version takes, after a few iterations, when it is complete."""
    caplog.set_level(logging.INFO, "ucp_checkpoint")
    model, optimizer, tier = a_job(tmp_path, every="auto")
    assert steps_to_choice(model, optimizer, tier) >= 5
    report = tier.report()
    assert report["seconds_of_version"] > 0
    assert tier._took is not None
    assert report["every"] == max(1, math.ceil(report["seconds_of_version"] / tier._took.iteration))
    assert f"a version each {report['every']} iterations: {report['why']}" in caplog.text
    assert report["versions"] <= 2
    tier.close()


def steps_to_choice(model: torch.nn.Module, optimizer: torch.optim.Optimizer, tier: ucp.memory.Tier) -> int:
    """Takes steps until the interval is chosen."""
    until = time.monotonic() + 60
    for step in itertools.count():
        if tier.report()["every"] != "auto":
            return step
        assert time.monotonic() < until
        take_steps(model, optimizer, tier, range(step, step + 1))
        time.sleep(0.05)
    raise AssertionError


def test_the_interval_after_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A first version that fails is a warning, and another one is made, by which it is chosen."""
    model, optimizer, tier = a_job(tmp_path, every="auto")
    folder = tmp_path / "one"
    folder.rename(tmp_path / "gone")
    folder.write_text("in the way")
    take_steps(model, optimizer, tier, range(4))
    assert tier._kept.saving is not None
    wait_until(tier._kept.saving.done)
    folder.unlink()
    (tmp_path / "gone").rename(folder)
    steps_to_choice(model, optimizer, tier)
    report = tier.report()
    assert (report["failures"], report["seconds_of_version"] > 0) == (1, True)
    assert "could not save the version before" in caplog.text
    tier.close()


def test_an_error_does_not_stop_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is a warning; with `strict` it is raised."""
    for strict in (False, True):
        model, optimizer, tier = a_job(tmp_path, strict=strict)
        folder = tmp_path / "one"
        folder.rename(tmp_path / "gone")
        folder.write_text("in the way")
        take_steps(model, optimizer, tier, range(1))
        wait_until(tier._kept.saver._savings[-1].done)
        if strict:
            with pytest.raises(ucp.Error, match="step-0"):
                take_steps(model, optimizer, tier, range(1, 2))
        else:
            take_steps(model, optimizer, tier, range(1, 2))
            assert "could not save the version before" in caplog.text
            assert tier.report()["failures"] == 1
        folder.unlink()
        (tmp_path / "gone").rename(folder)
        abandon(tier)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before training starts, each with what was found."""
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for settings, sentence in (
        ({"job": None}, "a tier needs the name of its job"),
        ({"job": "../x"}, "job is a name of letters"),
        ({"every": 0}, "every is a number from 1"),
        ({"persist_every": 5}, "persist_every saves to `fallback`"),
    ):
        with pytest.raises(ucp.Error, match=sentence):
            a_job(tmp_path, **settings)
    _, _, tier = a_job(tmp_path)
    code = (
        "import torch, ucp_checkpoint as ucp\n"
        f"try: ucp.memory.Tier(torch.nn.Linear(2, 2), job='one', directory={str(tmp_path)!r}, no_dist=True)\n"
        "except ucp.Error as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == f"the job `one` runs already, as process {os.getpid()} on this machine; name another job\n"
    tier.close()
    (tmp_path / "one").chmod(0o777)
    with pytest.raises(ucp.Error, match="one` is not a folder that this user alone may change"):
        a_job(tmp_path)
    (tmp_path / "one").chmod(0o700)
    small = os.statvfs_result((4096, 4096, 1, 1, 1, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    with pytest.raises(ucp.Error, match=r"two versions of the state have [\d,]+ bytes, and `.*` has room for 4,096"):
        a_job(tmp_path)
    monkeypatch.undo()
    a_job(tmp_path)[2].close()  # Nothing of the one that failed holds the folder.
