"""Copies and recovery of `ucp.memory`, machine by machine: damage, lack of memory, machines that are late or gone."""

from __future__ import annotations

import logging
import random
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tier_threads
import ucp_checkpoint as ucp
from tier_threads import Cluster, Saved, step_in
from ucp_checkpoint import _copies, _streams, _ucp
from ucp_checkpoint._copies import Copies
from ucp_checkpoint._spans import Cost, Span
from ucp_checkpoint._tier_folder import TierFolder
from ucp_checkpoint._traffic import Traffic
from writers import wait_until

Keep = Callable[..., list[str]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Path]]:
    return tier_threads.templates(tmp_path_factory.mktemp("parts"), 4, range(1, 4))


@pytest.fixture
def keep(parts: dict[int, list[Path]]) -> Keep:
    """Keeps the version of a step on all machines, and says the problem that each has."""

    def work(
        cluster: Cluster, copiers: list[Copies], step: int, problems: dict[int, str] | None = None, **how: Any
    ) -> list[str]:
        version = cluster.version(step)
        for machine, copier in enumerate(copiers):
            place = cluster.folders[machine].of_part(version, machine, cluster.count)
            saved = Saved(parts[step][machine], place, (problems or {}).get(machine, ""))
            copier.add(version, saved, how.get("target"), how.get("meeting", "1"))  # type: ignore[arg-type]
        wait_until(lambda: all(copier.is_settled() for copier in copiers))
        return [copier.take_problem() for copier in copiers]

    return work


def flip(file: Path) -> None:
    """A bit."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def own_file(cluster: Cluster, machine: int, step: int, of: int | None = None) -> Path:
    number = machine if of is None else of
    return cluster.folders[machine].of_part(cluster.version(step), number, cluster.count) / f"__{number}_0.distcp"


@pytest.mark.parametrize(("count", "copies"), [(2, 2), (4, 2), (3, 3), (3, 2)])
def test_every_loss_that_the_placement_stands(keep: Keep, tmp_path: Path, count: int, copies: int) -> None:
    """M1, M2: k - 1 machines, in every way: the newest version comes back, on all machines."""
    cluster = Cluster(tmp_path, count, copies)
    copiers = cluster.copiers()
    assert [keep(cluster, copiers, step) for step in (1, 2)] == [[""] * count] * 2
    assert [copier.committed for copier in copiers] == [cluster.version(2)] * count
    for folder in cluster.folders:  # The one before is removed.
        assert folder.versions() == [cluster.version(2)]
    for first in range(count):
        for machine in range(first, first + copies - 1):
            cluster.lose(machine % count)
        paths = cluster.recover(world=f"{first}")
        assert [step_in(path) for path in set(paths)] == [2.0] * count
        assert len(set(paths)) == count
    for copier in copiers:
        copier.close()


def test_a_lost_group(keep: Keep, tmp_path: Path) -> None:
    """Both machines of two: what is missing is named, and no other version is mixed in (M4)."""
    cluster = Cluster(tmp_path, 4, 2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    cluster.lose(0)
    cluster.lose(1)
    stale = cluster.folders[0].of_part(cluster.version(1, epoch=2), 0, 4)  # Of another start.
    shutil.copytree(cluster.folders[2].of_part(cluster.version(1), 2, 4), stale)
    told = cluster.recover()
    assert told[0] == ["no machine has part 1 of the 4 of step 1", "no machine has part 0 of the 4 of step 1"]
    assert told == [told[0]] * 4


def test_damaged_parts(keep: Keep, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """M5: of an own part and of a copy the other one is taken, and the damage is named; of both, it is an error."""
    cluster = Cluster(tmp_path, 2, 2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    flip(own_file(cluster, 0, 1))
    flip(own_file(cluster, 0, 1, of=1))
    with caplog.at_level(logging.WARNING):
        assert [step_in(path) for path in cluster.recover()] == [1.0, 1.0]
    for part in (0, 1):
        said = rf"/a/parts/.*/{part}-of-2`: `__{part}_0.distcp` is not what was written: .*; the copy on machine `b` is"
        assert re.search(said, caplog.text)
    flip(own_file(cluster, 0, 1))
    flip(own_file(cluster, 1, 1, of=0))
    (told, _) = cluster.recover(world="2")
    assert len(told) == 1
    assert told[0].endswith("no machine has another copy")
    manifest = own_file(cluster, 1, 1).with_name("ucp_manifest.json")
    manifest.write_text(manifest.read_text().replace("1", "2", 1))
    assert isinstance(cluster.recover(world="3")[0], list)


@pytest.mark.parametrize("times", [1, 2])
def test_a_bit_flipped_on_the_way(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """It is sent again; if that is wrong as well, the version before stays (M2)."""
    cluster = Cluster(tmp_path, 2, 2)
    copiers = cluster.copiers()
    assert keep(cluster, copiers, 1) == ["", ""]
    faults_of = TierFolder.faults_of
    left = [times]

    def flipped(self: TierFolder, part: Any, folder: Path | None = None) -> list[str]:
        if folder is not None and part.number == 1 and left[0] > 0:
            left[0] -= 1
            flip(folder / "__1_0.distcp")
        return faults_of(self, part, folder)

    monkeypatch.setattr(TierFolder, "faults_of", flipped)
    problems = keep(cluster, copiers, 2)
    if times == 1:
        assert problems == ["", ""]
    else:
        assert problems[0] == problems[1]
        assert "the copy of machine `b` on `a` differs, and did so when it was sent again: " in problems[0]
    assert [folder.versions() for folder in cluster.folders] == [[cluster.version(3 - times)]] * 2
    assert [step_in(path) for path in cluster.recover()] == [3.0 - times] * 2


def test_a_save_that_fails_and_a_full_memory(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M7, M8: all machines give the version up, and say why; the next one is kept."""
    cluster = Cluster(tmp_path, 3, 2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    assert keep(cluster, copiers, 2, {1: "no such luck"}) == ["machine `b`: no such luck"] * 3

    def full(path: Path, size: int) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(_streams, "reserve", full)
    (problem, *_) = keep(cluster, copiers, 2)
    assert problem.startswith("machine `a`: `")
    assert problem.endswith("`: no space left on device")
    for folder in cluster.folders:
        assert folder.versions() == [cluster.version(1)]
    monkeypatch.undo()
    assert keep(cluster, copiers, 3, meeting="2") == [""] * 3
    for folder in cluster.folders:
        assert folder.versions() == [cluster.version(3)]


@pytest.mark.parametrize("when", [0, 2, 3, 4, 5])
def test_a_machine_that_goes(
    keep: Keep, parts: dict[int, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """M2: in each round of the protocol one of three machines ends. The others say so, and a version is left."""
    cluster = Cluster(tmp_path, 3, 2, timeout=2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    all_tell, rounds = _streams.Streams.all_tell, [0]

    class Gone(BaseException):
        """Not an error that anything handles."""

    def tell(self: Any, mine: Any) -> list[Any]:
        if self.mine == 1:
            rounds[0] += 1
            if rounds[0] == when + 1:
                raise Gone
        return all_tell(self, mine)

    monkeypatch.setattr(_streams.Streams, "all_tell", tell)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    version = cluster.version(2)
    for machine, copier in enumerate(copiers):
        place = cluster.folders[machine].of_part(version, machine, 3)
        copier.add(version, Saved(parts[2][machine], place), None, "1")  # type: ignore[arg-type]
    others = [copiers[0], copiers[2]]
    wait_until(lambda: all(copier.is_settled() for copier in others))
    problems = [copier.take_problem() for copier in others]
    monkeypatch.undo()
    if when < 5:
        assert all("a machine is gone, or does not answer" in problem for problem in problems)
    cluster.lose(1)
    found = {step_in(path) for path in cluster.recover()}
    assert found == ({1.0} if when < 4 else {2.0})


@pytest.mark.parametrize(("when", "is_heard", "complete"), [(3, True, (2, 1, 2)), (4, False, (2, 2, 2))])
def test_machines_meet_again(
    keep: Keep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: int,
    is_heard: bool,
    complete: tuple[int, ...],
) -> None:
    """M2, M7: one could not hear the others in a round, in which they may have heard it; then they agree."""
    cluster = Cluster(tmp_path, 3, 2, timeout=2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    all_tell, rounds = _streams.Streams.all_tell, [0]

    def tell(self: Any, mine: Any) -> list[Any]:
        rounds[0] += self.mine == 1
        if self.mine == 1 and rounds[0] == when + 1:
            if is_heard:
                all_tell(self, mine)
            raise RuntimeError("no answer")
        return all_tell(self, mine)

    monkeypatch.setattr(_streams.Streams, "all_tell", tell)
    assert all("a machine is gone, or does not answer" in problem for problem in keep(cluster, copiers, 2))
    monkeypatch.undo()
    assert [copier.complete for copier in copiers] == [cluster.version(step) for step in complete]
    agreed = cluster.version(min(complete))
    for copier, folder in zip(copiers, cluster.folders, strict=True):
        copier.agree_on(agreed, tier_threads.WORLD)
        assert folder.versions() == [agreed]
    assert [step_in(path) for path in cluster.recover()] == [agreed.step] * 3
    assert keep(cluster, copiers, 3, meeting="2") == [""] * 3
    assert [step_in(path) for path in cluster.recover(world="2")] == [3.0] * 3


def test_close_while_a_machine_hangs(
    keep: Keep, parts: dict[int, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file changes when close() has returned, since the next start may have the folder; then the thread ends."""
    cluster = Cluster(tmp_path, 2, 2)
    copiers = cluster.copiers()
    keep(cluster, copiers, 1)
    all_tell, hangs, goes_on, rounds = _streams.Streams.all_tell, threading.Event(), threading.Event(), [0]

    def tell(self: Any, mine: Any) -> list[Any]:
        rounds[0] += self.mine == 1
        if self.mine == 1 and rounds[0] == 5:
            hangs.set()
            goes_on.wait(30)
        return all_tell(self, mine)

    monkeypatch.setattr(_streams.Streams, "all_tell", tell)
    version = cluster.version(2)
    for machine, copier in enumerate(copiers):
        place = cluster.folders[machine].of_part(version, machine, 2)
        copier.add(version, Saved(parts[2][machine], place), None, "1")  # type: ignore[arg-type]
    assert hangs.wait(30)
    wait_until(lambda: copiers[0].complete == version)  # It waits for the other one's last word.
    copiers[0].close(patience=0)
    before = sorted(map(str, cluster.folders[0].path.rglob("*")))
    assert cluster.folders[0].versions() == [cluster.version(1), version]
    goes_on.set()
    copiers[0]._thread.join(30)
    assert not copiers[0]._thread.is_alive()
    assert sorted(map(str, cluster.folders[0].path.rglob("*"))) == before
    wait_until(copiers[1].is_settled)
    assert [step_in(path) for path in cluster.recover()] == [2.0] * 2


@pytest.mark.parametrize("mode", ["paced", "timetable"])
def test_chunks_that_have_a_time(keep: Keep, tmp_path: Path, mode: str) -> None:
    """Each machine cuts what it sends by itself; the copies have the bytes of their owners."""
    cluster = Cluster(tmp_path, 3, 3)
    traffics = [Traffic(mode) for _ in range(3)]
    copiers = cluster.copiers(traffics)
    for traffic in traffics:
        traffic._reason = "given"  # It is not watched.
    assert keep(cluster, copiers, 1) == [""] * 3
    for number, traffic in enumerate(traffics):
        assert traffic.cost is not None
        for _ in range(3):
            traffic.beat(1)
        traffic._mode, traffic._spans = mode, [Span(0, 0.002 * (number + 1)), Span(0.01, 0.012)]
        traffic.cost = Cost(0.0001, 200e6)
    assert keep(cluster, copiers, 2) == [""] * 3
    sizes = [[list(cut.sizes) for cut in copier._cuts] for copier in copiers]
    of_part = sum(size for _, size in cluster.folders[0].part(cluster.version(2), 0, 3).files)
    assert [sum(of_copy) for of_copy in sizes[0]] == [of_part] * 2
    assert all(len(of_copy) > 1 for of_machine in sizes for of_copy in of_machine)
    cluster.lose(0)
    cluster.lose(2)
    assert [step_in(path) for path in cluster.recover()] == [2.0] * 3


def test_versions_on_storage(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts in one folder, which any program reads. A version's time is until then, and that of the writer."""
    cluster = Cluster(tmp_path / "memory", 2, 2)
    copiers = cluster.copiers()
    persist = Copies._persist
    times: list[float] = []
    monkeypatch.setattr(Copies, "_persist", lambda self, *of: (times.append(self.seconds), persist(self, *of)))
    assert keep(cluster, copiers, 1, target=tmp_path / "storage" / "step-1") == ["", ""]
    assert sorted(times) == sorted(copier.seconds for copier in copiers)
    assert min(times) > tier_threads.SECONDS
    assert step_in(str(tmp_path / "storage" / "step-1")) == 1.0
    assert not list((tmp_path / "storage").glob(".*"))


def test_replicas(parts: dict[int, list[Path]], tmp_path: Path) -> None:
    """Each machine has all of the state: nothing is sent, one machine is enough, and storage gets one of them."""
    cluster = Cluster(tmp_path / "memory", 3, 3)
    copiers = [
        Copies(machines, folder, [[0], [1], [2]], is_replicated=True, traffic=Traffic("timetable"))
        for machines, folder in zip(cluster.machines(), cluster.folders, strict=True)
    ]
    version, storage = cluster.version(1), tmp_path / "storage" / "step-1"
    for copier, folder in zip(copiers, cluster.folders, strict=True):
        saved = Saved(parts[1][0], folder.of_part(version, 0, 1))
        copier.add(version, saved, storage, "1")  # type: ignore[arg-type]
    wait_until(lambda: all(copier.is_settled() for copier in copiers))
    assert [copier.take_problem() for copier in copiers] == [""] * 3
    assert [copier.traffic.report()["mode"] for copier in copiers] == ["off"] * 3
    assert [(copier.bytes_sent, copier.committed) for copier in copiers] == [(0, version)] * 3
    assert step_in(str(storage)) == 1.0
    cluster.lose(0)
    cluster.lose(1)
    assert [step_in(path) for path in cluster.recover()] == [1.0] * 3


def test_random_losses(keep: Keep, tmp_path: Path) -> None:
    """Machines are lost and damaged at random: what comes back is a step that was kept, or an error; no mixture."""
    random.seed(5)
    for round_ in range(12):
        cluster = Cluster(tmp_path / f"{round_}", 3, 2)
        copiers = cluster.copiers()
        for step in range(1, random.randint(2, 3) + 1):
            keep(cluster, copiers, step)
        for machine in range(3):
            match random.randrange(4):
                case 0:
                    cluster.lose(machine)
                case 1:
                    flip(own_file(cluster, machine, step))
        told = cluster.recover()
        assert all(isinstance(one, list) for one in told) or {step_in(path) for path in told} == {float(step)}
        for copier in copiers:
            copier.close()


def test_which_machines() -> None:
    """By the names that ranks give, in the order of their first ranks; what they disagree on is refused on all."""

    def found(names: str, domains: str) -> list[Any]:
        said, barrier = [""] * len(names), threading.Barrier(len(names))

        def find(rank: int) -> Any:
            try:
                ranks = tier_threads.ThreadRanks(rank, said, barrier)
                machines = tier_threads.ThreadMachines.find(ranks, names[rank], domains[rank], 1.0)
                machines.check_alike(["w"] if machines.mine < 2 else ["x"])
            except ucp.Error as error:
                return str(error)
            return (machines.mine, machines.count, machines.speaks, machines.domains)

        return tier_threads.together([lambda rank=rank: find(rank) for rank in range(len(names))])

    assert found("baba", "rsrs") == [
        (0, 2, True, ["r", "s"]),
        (1, 2, True, ["r", "s"]),
        (0, 2, False, ["r", "s"]),
        (1, 2, False, ["r", "s"]),
    ]
    said = "machine `a` is in the domain `r` by its first rank, and in `s` by rank 1"
    assert found("aab", "rss") == [said] * 3
    said = "machine `a` and machine `c` hold tensors of other names, as pipeline stages do; "
    assert found("abc", "rst") == [f"{said}each machine needs a rank of every stage"] * 3
    assert _ucp.keepers(4, 2, ["r", "r", "s", "s"]) == [[0, 2], [1, 3], [2, 0], [3, 1]]


def test_hostile_names(tmp_path: Path) -> None:
    """A machine's word on its files is checked before anything is made of it (M5)."""
    part = {"version": {"epoch": 1, "step": 1, "world": "0123abcd"}, "number": 0, "count": 1, "manifest": ""}
    for name, size in (("../x", 1), ("__0_0.distcp", -1), ("__0_0.distcp/..", 4)):
        with pytest.raises(ucp.Error, match="which no part has"):
            _copies.Part.from_json(part | {"files": [[name, size]]})
