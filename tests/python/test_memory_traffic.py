"""When copies are sent: idle spans of the training's network, and the chunks in them, beside slow searches."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
from pathlib import Path

import pytest

import ucp_checkpoint as ucp
from ucp_checkpoint import _spans, _traffic
from ucp_checkpoint._spans import Cost, Span, Took
from ucp_checkpoint._traffic import Traffic
from writers import wait_until

Parts = list[list[tuple[int, int]]]


def slow_partition(spans: list[float], size: int, copies: int, largest: int, cost: Cost, safety: float) -> Parts:
    """Each chunk is the longest one of all sizes whose time is left in the span."""
    made: Parts = []
    left_of_all = [size] * copies
    for number, span in enumerate(spans):
        made.append([])
        used = 0.0
        while any(left_of_all):
            copy = next(copy for copy, left in enumerate(left_of_all) if left)
            most = min(largest, left_of_all[copy])
            is_last = number == len(spans) - 1
            fitting = [chunk for chunk in range(1, most + 1) if is_last or used + cost.seconds(chunk) <= safety * span]
            if not fitting or fitting[-1] < min(_spans.LEAST_CHUNK, left_of_all[copy]):
                break
            made[-1].append((copy, fitting[-1]))
            used += cost.seconds(fitting[-1])
            left_of_all[copy] -= fitting[-1]
    return made


@pytest.mark.parametrize("seed", range(200))
def test_the_partition(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All times are multiples of 1/64, and sums of them exact."""
    monkeypatch.setattr(_spans, "LEAST_CHUNK", 3)
    drawn = random.Random(seed)
    spans = [drawn.randrange(1, 400) / 16 for _ in range(drawn.randrange(1, 7))]
    size, copies, largest = drawn.randrange(1, 90), drawn.randrange(1, 4), drawn.randrange(3, 30)
    cost = Cost(drawn.choice([0.0, 0.25, 1.0]), drawn.choice([1.0, 2.0, 8.0]))
    safety = drawn.choice([0.5, 0.75])
    made = _spans.partition(spans, size, copies, largest, cost, safety)
    assert made == slow_partition(spans, size, copies, largest, cost, safety)
    sent = [chunk for chunks in made for chunk in chunks]
    assert [copy for copy, _ in sent] == sorted(copy for copy, _ in sent)
    assert [sum(chunk for one, chunk in sent if one == copy) for copy in range(copies)] == [size] * copies


def test_the_partition_by_hand() -> None:
    """Two spans hold two chunks and a shorter one; the last span has the rest."""
    mib = 1 << 20
    cost = Cost(0.01, 100 * mib)
    parts = _spans.partition([0.1, 0.02, 0.1], 12 * mib, 1, 4 * mib, cost, 0.9)
    assert [[round(chunk / mib, 4) for _, chunk in chunks] for chunks in parts] == [[4, 3], [0.8], [4, 0.2]]


@pytest.mark.parametrize("seed", range(100))
def test_the_timetable(seed: int) -> None:
    """The least interval: chunks are in idle spans that are not over, and one iteration less would not hold them."""
    drawn = random.Random(seed)
    ends = sorted(drawn.sample(range(1, 100), 6))
    spans = [Span(begin / 100, end / 100) for begin, end in zip(ends[::2], ends[1::2], strict=True)]
    spans = [span for span in spans if span.end - span.begin > 0.02]
    if not spans:
        return
    cost, safety = Cost(drawn.choice([0.0, 0.001]), 50e6), 0.8
    size, copies, phase = drawn.randrange(1, 80_000_000), drawn.randrange(1, 3), drawn.random()
    interval, chunks = _spans.timetable(spans, phase, 1, size, copies, cost, safety)
    assert [sum(chunk.size for chunk in of_copy) for of_copy in chunks] == [size] * copies
    busy_until = (0, phase)
    for chunk in (chunk for of_copy in chunks for chunk in of_copy):
        assert (chunk.iteration, chunk.phase) >= busy_until
        end = chunk.phase + cost.seconds(chunk.size)
        assert any(span.begin - 1e-9 <= chunk.phase and end <= span.end + 1e-9 for span in spans)
        busy_until = (chunk.iteration, end - 1e-9)
    assert chunks[-1][-1].iteration < interval
    ahead = [
        max(0.0, span.end - max(span.begin, phase if iteration == 0 else 0))
        for iteration in range(interval - 1)
        for span in spans
    ]
    if interval > 1:
        largest = max(chunk.size for of_copy in chunks for chunk in of_copy)
        assert held(ahead, size, copies, largest, cost, safety) < size * copies


def held(spans: list[float], size: int, copies: int, largest: int, cost: Cost, safety: float) -> int:
    """The bytes of copies that these spans hold."""
    left_of_all = [size] * copies
    for span in spans:
        left = safety * span
        while any(left_of_all):
            copy = next(copy for copy, rest in enumerate(left_of_all) if rest)
            chunk = min(largest, left_of_all[copy], int((left - cost.startup) * cost.rate))
            if chunk < min(_spans.LEAST_CHUNK, left_of_all[copy]):
                break
            left_of_all[copy] -= chunk
            left -= cost.seconds(chunk)
    return size * copies - sum(left_of_all)


def slow_interval(spans: list[Span], writing: float, iteration: float, size: int, copies: int, cost: Cost) -> int:
    """The first number of iterations in which what is idle after the writing holds the copies."""
    largest = _spans._largest(spans, cost, 0.8)
    for interval in itertools.count(1):
        ahead = []
        for number in range(interval):
            for span in spans:
                begin = max(number * iteration + span.begin, writing)
                ahead.append(max(0.0, number * iteration + span.end - begin))
        if held(ahead, size, copies, largest, cost, 0.8) == size * copies:
            return interval
    raise AssertionError


def planned(spans: list[Span], cost: Cost, size: int, copies: int, iteration: float = 1.0) -> Traffic:
    """One with these spans, whose last version had so many bytes."""
    traffic = Traffic("timetable")
    traffic._mode, traffic._spans, traffic.cost = "timetable", spans, cost
    traffic._lengths.append(iteration)
    traffic._size, traffic._copies = size, copies
    return traffic


@pytest.mark.parametrize("seed", range(200))
def test_the_interval(seed: int) -> None:
    """Each version is complete when the next one is due, and would not be one iteration earlier."""
    drawn = random.Random(seed)
    iteration = drawn.choice([0.5, 1.0, 4.0])
    ends = sorted(drawn.sample(range(64), 2 * drawn.randrange(1, 4)))
    spans = [
        Span(begin / 64 * iteration, end / 64 * iteration) for begin, end in zip(ends[::2], ends[1::2], strict=True)
    ]
    cost = Cost(drawn.choice([0.0, 0.0001]), 200e6)
    size, copies = drawn.randrange(1, 100_000_000), drawn.randrange(1, 3)
    writing = drawn.choice([0.0, drawn.uniform(0, 3)]) * iteration
    traffic = planned(spans, cost, size, copies, iteration)
    sending = _spans.seconds_of_copies(spans, size, copies, cost, 0.8)
    assert traffic.took(writing + sending).interval == slow_interval(spans, writing, iteration, size, copies, cost)


def test_the_interval_by_hand() -> None:
    """Copies of 0.3 s are sent in the half that follows the writing; those of 0.2 s need more than what it leaves."""
    cost = Cost(0, 100e6)
    assert planned([Span(0.5, 1)], cost, 30_000_000, 1).took(0.8).interval == 1
    assert planned([Span(0, 0.5)], cost, 20_000_000, 1).took(0.5).interval == 2
    assert [Traffic().took(1.1).interval, planned([Span(0, 1)], cost, 0, 0).took(1.5).interval] == [1, 2]


def test_what_a_version_took(clock: Clock) -> None:
    """Every iteration, where the idle half holds its copies; else as many as they need, with the reason."""
    traffic = watched(clock, [1.0] * 20)
    beat(traffic, clock, [1.0] * 6)
    traffic.cuts(2_000_000, 1, lambda: None)
    took = traffic.took(0.5)
    assert (took.iteration, took.sending, took.idle) == pytest.approx((1.0, 0.2, 0.4), rel=0.02)
    assert took.interval == 1
    assert took.reason().startswith("a version takes 0.5 s, and an iteration 1 s; copies take 0.2 s of network, of ")
    traffic.cuts(2_000_000, 4, lambda: None)
    assert [traffic.took(1.1).interval, traffic.took(1.5).interval] == [2, 3]  # 0.3 or 0.7 to write, 0.8 to send.
    assert Traffic().took(1.1) == Took(1.1, 0.0, 1)
    paced = Traffic("paced")
    beat(paced, clock, [1.0] * 6)
    assert (paced.took(2.5).interval, paced.took(0.0).interval) == (3, 1)
    assert paced.took(2.5).reason() == "a version takes 2.5 s, and an iteration 1 s"


def test_idle_spans() -> None:
    """Of a loop that sends at known times; the counter is read at other times, and iterations differ by 2 %."""
    drawn = random.Random(7)
    busy = [(0.1, 0.25), (0.4, 0.46), (0.7, 0.72)]
    begins, bytes_at, events = [5.0], 0, []
    for _ in range(20):
        begin = begins[-1]
        events += [(begin + from_ + (until - from_) * part / 50, 20_000) for from_, until in busy for part in range(50)]
        begins.append(begin + 1 + drawn.uniform(-0.01, 0.01))
    samples, at, left = [], 4.9, sorted(events)
    while at < begins[-1] + 0.1:
        while left and left[0][0] <= at:
            bytes_at += left.pop(0)[1]
        samples.append((at, bytes_at))
        at += drawn.uniform(0.002, 0.006)
    rates = _spans.rates_by_phase(samples, begins, 1.0)
    assert sum(rates) / len(rates) == pytest.approx(3_000_000, rel=0.01)
    found = _spans.idle_spans(rates, 1.0, Cost(0, 20e6), 0.64, 0.0)
    truth = [(0.0, 0.1), (0.25, 0.4), (0.46, 0.7), (0.72, 1.0)]
    assert len(found) == len(truth)
    for span, (begin, end) in zip(found, truth, strict=True):
        assert begin <= span.begin <= begin + 0.015
        assert end - 0.015 <= span.end <= end
    assert _spans.idle_spans(rates, 1.0, Cost(0, 20e6), 0.64, 0.2) == [found[2], found[3]]
    assert _spans.idle_spans([0.0] * 200, 1.0, Cost(0, 20e6), 0.64, 0.0) == [Span(0, 1)]
    assert _spans.idle_spans([9e6] * 200, 1.0, Cost(0, 20e6), 0.64, 0.0) == []


def test_cost() -> None:
    """A start-up time and a rate, from two sizes."""
    truth = Cost(0.002, 50e6)
    made = _spans.cost_of((65536, truth.seconds(65536)), (1 << 22, truth.seconds(1 << 22)))
    assert (made.startup, made.rate) == pytest.approx((0.002, 50e6))
    assert _spans.cost_of((100, 0.5), (100, 0.5)) == Cost(0, 200)


@pytest.mark.parametrize("copies", [1, 2])
def test_evenly(copies: int) -> None:
    """From now to the end of the interval, as far apart from one another."""
    size = 300 * _spans.LEAST_CHUNK + 5
    chunks = [chunk for of_copy in _spans.evenly(size, copies, 0.5, 4.0, 1.25) for chunk in of_copy]
    assert sum(chunk.size for chunk in chunks) == copies * size
    times = [chunk.iteration * 1.25 + chunk.phase for chunk in chunks]
    assert times == pytest.approx([0.5 + 3.5 * number / len(chunks) for number in range(len(chunks))])


class Clock:
    """In place of time.monotonic(); it stands still."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_traffic.time, "monotonic", made.monotonic)
    return made


def beat(traffic: Traffic, clock: Clock, lengths: list[float], every: int = 1) -> None:
    for length in lengths:
        traffic.beat(every)
        clock.now += length


def watched(clock: Clock, lengths: list[float], busy: float = 0.5) -> Traffic:
    """One that has watched iterations whose first part sends."""
    traffic = Traffic("timetable")
    traffic.cost = Cost(0, 10e6)
    begins, samples = [0.0], [(0.0, 0)]
    for length in lengths:
        begin, count = begins[-1], samples[-1][1]
        samples += [(begin + busy * part / 100, count + 10_000 * part) for part in range(1, 101)]
        begins.append(begin + length)
    samples.append((begins[-1], samples[-1][1]))
    traffic._choose(samples, begins)
    return traffic


def test_the_mode() -> None:
    """By how iterations differ, and whether a part of them is idle; with the reason."""
    clock = Clock()
    steady = watched(clock, [1.0] * 20).report()
    assert (steady["mode"], steady["iteration"]) == ("timetable", 1.0)
    assert steady["reason"] == "the network is idle for 0.5 s of iterations of 1 s, in 1 spans"
    (idle,) = steady["idle"]
    assert idle == pytest.approx((0.5, 1.0), abs=0.006)
    varied = watched(clock, [1.0, 1.4] * 10).report()
    assert (varied["mode"], varied["reason"]) == ("paced", "iterations of 1.2 s differ by 25 %, more than 10 %")
    with pytest.raises(ucp.Error, match="traffic is one of off, paced, timetable, not 'fast'"):
        Traffic("fast")
    busy = watched(clock, [1.0] * 20, busy=1.0).report()
    assert busy["mode"] == "paced"
    assert busy["reason"] == "the training leaves the network idle in no long part of an iteration"


def test_no_counters(clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of an interface that is not inside the machine."""
    monkeypatch.setattr(_traffic, "_INTERFACES", str(tmp_path))
    for name in ("lo", "eth0"):
        (tmp_path / name / "statistics").mkdir(parents=True)
        for way in ("rx", "tx"):
            (tmp_path / name / "statistics" / f"{way}_bytes").touch()
    assert {path.parts[-3] for path in _traffic._counters()} == {"eth0"}
    shutil.rmtree(tmp_path / "eth0")
    traffic = Traffic("timetable")
    traffic.watch()
    assert not traffic.rests()  # The cost is not known.
    traffic.cost = Cost(0, 1e6)
    traffic.watch()
    assert traffic.rests()
    beat(traffic, clock, [1.0] * 21)
    wait_until(lambda: not traffic.rests())
    assert traffic.report()["mode"] == "paced"
    assert traffic.report()["reason"] == f"there are no counters of a network in `{tmp_path}`"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "the training stood still while its network was watched"),
        ("", "the counters of the network cannot be read"),
    ],
)
def test_watching_ends(text: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else no version would be made again."""
    monkeypatch.setattr(_traffic, "_INTERFACES", str(tmp_path))
    monkeypatch.setattr(_traffic, "_MOST_SAMPLES", 30)
    (tmp_path / "eth0" / "statistics").mkdir(parents=True)
    (tmp_path / "eth0" / "statistics" / "rx_bytes").write_text(text)
    traffic = Traffic("timetable")
    traffic.cost = Cost(0, 1e6)
    traffic.watch()
    wait_until(lambda: not traffic.rests())
    assert traffic.report()["mode"] == "paced"
    assert traffic.report()["reason"].startswith(reason)


def test_chunks_of_modes(clock: Clock) -> None:
    """At once, evenly, or in the idle half, in which a second copy no longer fits."""
    off, paced = Traffic("off"), Traffic("paced")
    assert paced.cuts(1000, 1, lambda: None)[0].sizes == []  # No iteration has ended.
    for traffic in (off, paced):
        beat(traffic, clock, [1.0] * 3, every=2)
    clock.now -= 0.75
    assert [cut.sizes for cut in off.cuts(1 << 20, 2, lambda: None)] == [[], []]
    (cut,) = paced.cuts(1 << 20, 1, lambda: None)
    assert cut.sizes == [_spans.LEAST_CHUNK] * 16
    traffic = Traffic("timetable")
    beat(traffic, clock, [1.0] * 3)
    assert traffic.cuts(1 << 20, 1, lambda: None)[0].sizes == []  # How long copies take is measured.
    traffic = watched(clock, [1.0] * 20)
    beat(traffic, clock, [1.0] * 2)
    clock.now -= 0.4  # At 0.6 of the iteration.
    for copies, interval in ((1, 1), (2, 2)):
        made = traffic._chunks(3_000_000, copies)
        assert [sum(chunk.size for chunk in of_copy) for of_copy in made] == [3_000_000] * copies
        assert made[0][0].phase == pytest.approx(0.6)
        assert traffic.report()["interval"] == interval


def test_it_gives_way(clock: Clock) -> None:
    """Less of the spans, then fewer versions, then a new look; and back when iterations are as they were."""
    traffic = watched(clock, [1.0] * 20)
    beat(traffic, clock, [1.0] * 101)
    assert traffic.report()["share"] == 0.8
    beat(traffic, clock, [1.05] * 20)
    assert (traffic.report()["share"], traffic.report()["interval"]) == (0.64, 1)
    beat(traffic, clock, [1.05] * 20)
    assert (traffic.report()["share"], traffic.report()["interval"]) == (0.64, 2)
    traffic.begun()
    assert traffic.rests()
    beat(traffic, clock, [1.0] * 1)
    assert traffic.rests()
    beat(traffic, clock, [1.0] * 1)
    assert not traffic.rests()
    beat(traffic, clock, [1.0] * 218)
    assert (traffic.report()["share"], traffic.report()["interval"]) == (0.8, 1)
    beat(traffic, clock, [1.05] * 81)
    assert traffic.report()["reason"] == ""  # It is watched anew when no version is sent.
    traffic._say("timetable", "as before")
    traffic._rung = 0
    beat(traffic, clock, [1.05] * 100)
    assert traffic.report()["share"] == 0.8  # Iterations of that length are usual now.


def test_waiting(clock: Clock) -> None:
    """For the iteration of a chunk; close() and an iteration that does not come end it."""
    traffic = Traffic("paced")
    beat(traffic, clock, [0.001] * 3)
    checks: list[int] = []
    (cut,) = traffic.cuts(1 << 20, 1, lambda: checks.append(1))
    for number in range(17):
        cut.wait(number)  # Of iterations that do not begin.
    assert len(checks) == 17
    traffic._lengths.extend([1000.0] * 20)
    (cut,) = traffic.cuts(1 << 20, 1, lambda: checks.append(1))
    waiting = threading.Thread(target=cut.wait, args=(15,))
    waiting.start()
    traffic.hurry()
    waiting.join(30)
    assert not waiting.is_alive()
    assert traffic.cuts(1 << 20, 1, lambda: None)[0].sizes == []
