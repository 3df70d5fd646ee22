"""The spans of an iteration in which the training leaves the network idle, and the chunks of copies that fit into them.

Functions of numbers alone. The partition is Gemini's (Wang et al., SOSP 2023, algorithm 2). Times are in seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf

BINS = 200  # Of an iteration.
LEAST_CHUNK, LARGEST_CHUNK = 64 << 10, 8 << 20
_CHUNKS_OF_SPAN, _CHUNKS_OF_COPY = 4, 256  # About.
_BUSY_OF_PEAK, _BUSY_OF_LINK = 0.05, 0.01
_LEAST_BINS = 2  # Of a span.


@dataclass(frozen=True)
class Span:
    """From the beginning of the iteration."""

    begin: float
    end: float


@dataclass(frozen=True)
class Cost:
    """Of sending: each chunk takes `startup` seconds, and its bytes go at `rate` a second."""

    startup: float
    rate: float

    def seconds(self, size: float) -> float:
        return self.startup + size / self.rate


@dataclass(frozen=True)
class Chunk:
    """Of a copy, and when it is sent: in which iteration from now, and how long after its beginning."""

    iteration: int
    phase: float
    size: int


def rates_by_phase(samples: Sequence[tuple[float, int]], begins: Sequence[float], length: float) -> list[float]:
    """Bytes a second in each bin of an iteration of this length, as a mean of iterations.

    `samples` are times, and what a counter of bytes had then; `begins` the times at which iterations began, and at
    which the last one ended. Bytes between two samples count evenly over the time between them.
    """
    width = length / BINS
    found = [0.0] * BINS
    for (before, count), (after, later) in pairwise(samples):
        steps = max(1, round((after - before) / width))
        for step in range(steps):
            at = before + (step + 0.5) * (after - before) / steps
            iteration = bisect_right(begins, at) - 1
            if 0 <= iteration < len(begins) - 1:
                number = min(BINS - 1, int((at - begins[iteration]) / width))
                found[number] += (later - count) / steps
    return [count / (len(begins) - 1) / width for count in found]


def idle_spans(rates: Sequence[float], length: float, cost: Cost, safety: float, spread: float) -> list[Span]:
    """Where the bins are not busy, if a chunk fits into `safety` of it. A span that is shorter than the `spread` of
    iterations is at another place in each of them, and left out."""
    width = length / len(rates)
    least = max(_BUSY_OF_PEAK * max(rates), _BUSY_OF_LINK * cost.rate)
    shortest = max(_LEAST_BINS * width, cost.seconds(LEAST_CHUNK) / safety, spread)
    spans, begin = [], None
    for number, rate in enumerate([*rates, inf]):
        if rate <= least:
            begin = number if begin is None else begin
        elif begin is not None:
            if (number - begin + 0.5) * width > shortest:
                spans.append(Span(begin * width, number * width))
            begin = None
    return spans


def partition(
    spans: Sequence[float], size: int, copies: int, largest: int, cost: Cost, safety: float
) -> list[list[tuple[int, int]]]:
    """For each span, of which the lengths are given, the chunks that are sent in it: the copy's number, and the bytes.

    A chunk has `largest` bytes at most, and `LEAST_CHUNK` at least where it does not end its copy. The chunks of a span
    take `safety` of it at most; those that are left are in the last span, whatever its length.
    """
    made: list[list[tuple[int, int]]] = [[] for _ in spans]
    copy, rest = 0, size
    for number, span in enumerate(spans):
        left = inf if number == len(spans) - 1 else safety * span
        while copy < copies and rest > 0:
            fits = largest if left > cost.seconds(largest) else int((left - cost.startup) * cost.rate)
            chunk = min(fits, rest)
            if chunk < min(LEAST_CHUNK, rest):
                break
            made[number].append((copy, chunk))
            left -= cost.seconds(chunk)
            rest -= chunk
            if rest == 0:
                copy, rest = copy + 1, size
    return made


def timetable(
    spans: Sequence[Span], phase: float, least: int, size: int, copies: int, cost: Cost, safety: float
) -> tuple[int, list[list[Chunk]]]:
    """The number of iterations, `least` or more, whose spans hold the copies; and the chunks of each copy.

    Sending begins at `phase` of the first iteration. Each span is long enough for some chunk.
    """
    largest = _largest(spans, cost, safety)
    passed = sum(max(0.0, min(span.end, phase) - span.begin) for span in spans)
    idle = sum(span.end - span.begin for span in spans)
    wanted = seconds_of_copies(spans, size, copies, cost, safety)
    interval = max(least, ceil(passed / idle + wanted / (safety * idle)))
    while True:
        ahead = _ahead(spans, phase, interval)
        parts = partition([end - begin for _, begin, end in ahead], size, copies, largest, cost, safety)
        _, begin, end = ahead[-1]
        if sum(cost.seconds(chunk) for _, chunk in parts[-1]) <= safety * (end - begin):
            break
        interval += 1
    made: list[list[Chunk]] = [[] for _ in range(copies)]
    for (iteration, at, _), chunks in zip(ahead, parts, strict=True):
        for copy, chunk in chunks:
            made[copy].append(Chunk(iteration, at, chunk))
            at += cost.seconds(chunk)
    return interval, made


def seconds_of_copies(spans: Sequence[Span], size: int, copies: int, cost: Cost, safety: float) -> float:
    """That the network needs for them, in the largest chunks that these spans allow."""
    return copies * (size / cost.rate + -(-size // _largest(spans, cost, safety)) * cost.startup)


@dataclass(frozen=True)
class Took:
    """The seconds of a version on a rank, until it is complete, and those of an iteration."""

    version: float
    iteration: float
    interval: int  # The least number of iterations in which another one is made. A timetable sends in idle spans alone.
    sending: float = 0.0  # Of the version's seconds. With a timetable, what the network needs for copies.
    idle: float = 0.0  # With a timetable, what copies may use in each iteration; else 0.

    def reason(self) -> str:
        said = f"a version takes {self.version:.3g} s, and an iteration {self.iteration:.3g} s"
        if self.idle == 0:
            return said
        return f"{said}; copies take {self.sending:.3g} s of network, of which an iteration leaves {self.idle:.3g} s"


def _ahead(spans: Sequence[Span], phase: float, interval: int) -> list[tuple[int, float, float]]:
    """Those of so many iterations that are not over, with the number of the iteration."""
    found = [
        (iteration, max(span.begin, phase if iteration == 0 else 0.0), span.end)
        for iteration in range(interval)
        for span in spans
    ]
    return [one for one in found if one[1] < one[2]] or [(0, phase, phase)]


def evenly(size: int, copies: int, phase: float, until: float, length: float) -> list[list[Chunk]]:
    """Chunks of equal size at equal distances, from `phase` of this iteration; iterations have this length."""
    largest = max(LEAST_CHUNK, min(LARGEST_CHUNK, size // _CHUNKS_OF_COPY))
    count = -(-size // largest)
    made = []
    for copy in range(copies):
        times = [phase + max(0.0, until - phase) * (copy * count + at) / (copies * count) for at in range(count)]
        sizes = [min(largest, size - at * largest) for at in range(count)]
        made.append([Chunk(int(at // length), at % length, chunk) for at, chunk in zip(times, sizes, strict=True)])
    return made


def _largest(spans: Sequence[Span], cost: Cost, safety: float) -> int:
    """So that the longest span has several, two of which are on their way."""
    longest = max(span.end - span.begin for span in spans)
    return max(LEAST_CHUNK, min(LARGEST_CHUNK, int(safety * longest * cost.rate / _CHUNKS_OF_SPAN)))


def cost_of(small: tuple[int, float], large: tuple[int, float]) -> Cost:
    """From how long chunks of two sizes took."""
    (less, quick), (more, slow) = small, large
    rate = (more - less) / (slow - quick) if more > less and slow > quick else more / slow
    return Cost(max(0.0, quick - less / rate), rate)
