"""When a machine sends copies: at once, evenly over the interval, or while the training leaves its network idle.

The training begins iterations by beat(); the thread that sends asks for the chunks of a version, and waits before each.
For a timetable the machine's network is watched for some iterations: no version is made meanwhile. Afterwards, while
iterations are longer than those were, less of the idle spans is used, then fewer versions are made. If that does not
help, the network is watched anew, and iterations of that length are usual.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure
from ucp_checkpoint._spans import (
    BINS,
    Chunk,
    Cost,
    Span,
    Took,
    evenly,
    idle_spans,
    rates_by_phase,
    seconds_of_copies,
    timetable,
)

if TYPE_CHECKING:
    from ucp_checkpoint._streams import Cut

MODES = ("off", "paced", "timetable")
_ITERATIONS = 20  # That are watched, and that are compared with these.
_VARIATION = 0.1  # Of the length of iterations; with more there are no spans.
_LONGER = 0.01
_MOST_SAMPLES = 200_000  # An evaluation may stand between two iterations.
# The share of the idle spans that is used, and the iterations that versions are further apart.
_LADDER = ((0.8, 0), (0.64, 0), (0.64, 1), (0.64, 3))
_QUIET = 100  # Iterations after which the step before is taken again.
_INTERFACES = "/sys/class/net"
_log = logging.getLogger("ucp_checkpoint")


class Traffic:
    """Of one machine, for the rank that speaks for it."""

    def __init__(self, wanted: str = "off") -> None:
        if wanted not in MODES:
            raise failure("usage", f"traffic is one of {', '.join(MODES)}, not {_arguments.shown(wanted)}")
        self.is_timed = wanted != "off"  # Else a version is sent at once.
        self.cost: Cost | None = None  # Of the network, when it has been measured.
        self.iteration = 0
        self._mode = "paced" if self.is_timed else "off"
        self._wanted, self._reason = wanted, ""
        self._changed = threading.Condition()
        self._is_hurried = False
        self._begin = 0.0  # Of this iteration.
        self._every = 1
        self._lengths: deque[float] = deque(maxlen=_ITERATIONS)
        self._watched: list[float] | None = None  # Times at which iterations began, while the network is watched.
        self._length = self._spread = 0.0
        self._usual = 0.0  # The length of iterations where giving way did not make them shorter.
        self._spans: list[Span] = []
        self._rung = self._quiet = 0
        self._last = 0  # The iteration in which the last version was begun.
        self._interval = 1  # In which the copies fit into idle spans.
        self._size = self._copies = 0  # Of the last version.

    def beat(self, every: int) -> None:
        """An iteration begins. A version is made every so many of them."""
        with self._changed:
            now = time.monotonic()
            if self.iteration > 0:
                self._lengths.append(now - self._begin)
            self.iteration += 1
            self._begin, self._every = now, every
            if self._watched is not None:
                self._watched.append(now)
            self._changed.notify_all()
        if self._mode == "timetable" and self._watched is None:
            self._compare()

    def begun(self) -> None:
        """A version, in this iteration."""
        self._last = self.iteration

    def rests(self) -> bool:
        """Whether no version shall be begun now."""
        least = self._interval + _LADDER[self._rung][1]
        return self._watched is not None or (self._mode == "timetable" and self.iteration - self._last < least)

    def watch(self) -> None:
        """Looks at the network, when nothing is sent. Afterwards there is a timetable, or a reason why not."""
        if self._wanted == "timetable" and self.cost is not None and not self._reason:
            self._watched = []
            threading.Thread(target=self._sample, daemon=True, name="ucp traffic").start()

    def cuts(self, size: int, copies: int, check: Callable[[], None]) -> list[Cut]:
        """Of the streams of copies of so many bytes, sent from now on. `check` is called before each chunk."""
        from ucp_checkpoint._streams import Cut

        self._size, self._copies = size, copies
        with self._changed:
            chunks, first = self._chunks(size, copies), self.iteration

        def cut(of_copy: list[Chunk]) -> Cut:
            def wait(number: int) -> None:
                if number < len(of_copy):
                    self._wait_for(of_copy[number], first)
                check()

            return Cut([chunk.size for chunk in of_copy], wait)

        return [cut(of_copy) for of_copy in chunks]

    def _chunks(self, size: int, copies: int) -> list[list[Chunk]]:
        """None: a copy is sent at once, as before the network is watched, so that its time has no waiting."""
        is_first = self._mode == "paced" and self._wanted == "timetable" and not self._reason
        if self._mode == "off" or is_first or self._is_hurried or not self._lengths:
            return [[] for _ in range(copies)]
        phase, share = time.monotonic() - self._begin, _LADDER[self._rung][0]
        if self._mode == "paced" or self.cost is None:
            length = median(self._lengths)
            return evenly(size, copies, phase, share * self._every * length, length)
        self._interval, made = timetable(self._spans, phase, self._every, size, copies, self.cost, share)
        return made

    def _wait_for(self, chunk: Chunk, first: int) -> None:
        """Until its time has come. `first` is the iteration of its plan. If that time does not come, as iterations stop
        to begin, it is sent all the same."""
        with self._changed:
            ahead = first + chunk.iteration - self.iteration
            patience = self._begin + (ahead + 1) * median(self._lengths) + chunk.phase - time.monotonic()
            mine = first + chunk.iteration
            self._changed.wait_for(lambda: self._is_hurried or self.iteration >= mine, max(0.0, patience))
            if self.iteration == mine:
                wait = self._begin + chunk.phase - time.monotonic()
                self._changed.wait_for(lambda: self._is_hurried, max(0.0, wait))

    def took(self, version: float) -> Took:
        """Beside the last version, which was complete after so many seconds."""
        iteration = max(1e-6, median(self._lengths)) if self._lengths else 0.0
        if self._mode != "timetable" or self.cost is None:
            return Took(version, iteration, max(1, ceil(version / iteration)) if iteration > 0 else 1)
        share = _LADDER[0][0]
        sending = seconds_of_copies(self._spans, self._size, self._copies, self.cost, share)
        whole, phase = divmod(max(0.0, version - sending), iteration)
        held, _ = timetable(self._spans, phase, 1, self._size, self._copies, self.cost, share)
        idle = share * sum(span.end - span.begin for span in self._spans)
        return Took(version, iteration, int(whole) + held, sending, idle)

    def hurry(self) -> None:
        """All that is left is sent at once."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def report(self) -> dict[str, Any]:
        return {
            "mode": self._mode if self._watched is None else "watching",
            "reason": self._reason,
            "iteration": self._length,
            "idle": [(span.begin, span.end) for span in self._spans],
            "rate": None if self.cost is None else self.cost.rate,
            "startup": None if self.cost is None else self.cost.startup,
            "share": _LADDER[self._rung][0],
            "interval": self._interval + _LADDER[self._rung][1],
        }

    def _sample(self) -> None:
        """On a thread of its own, until there are enough iterations."""
        samples: list[tuple[float, int]] = []
        watched = self._watched
        assert watched is not None
        pause = max(0.001, (median(self._lengths) if self._lengths else 0.0) / BINS)
        try:
            counters = _counters()
            while len(watched) <= _ITERATIONS and not self._is_hurried and len(samples) < _MOST_SAMPLES:
                samples.append((time.monotonic(), sum(int(path.read_text()) for path in counters)))
                time.sleep(pause)
            if not counters:
                self._say("paced", f"there are no counters of a network in `{_INTERFACES}`")
            elif len(samples) == _MOST_SAMPLES:
                self._say("paced", "the training stood still while its network was watched")
            elif len(watched) > _ITERATIONS:
                self._choose(samples, watched[: _ITERATIONS + 1])
        except (OSError, ValueError) as error:
            self._say("paced", f"the counters of the network cannot be read: {error}")
        finally:  # Else no version would be made again.
            self._watched = None

    def _choose(self, samples: list[tuple[float, int]], begins: list[float]) -> None:
        lengths = [after - before for before, after in pairwise(begins)]
        self._length = median(lengths)
        self._spread = 1.4826 * median(abs(length - self._length) for length in lengths)
        if self._spread > _VARIATION * self._length:
            variation = f"{100 * self._spread / self._length:.0f} %"
            return self._say("paced", f"iterations of {self._length:.3g} s differ by {variation}, more than 10 %")
        assert self.cost is not None
        rates = rates_by_phase(samples, begins, self._length)
        self._spans = idle_spans(rates, self._length, self.cost, _LADDER[-1][0], self._spread)
        if not self._spans:
            return self._say("paced", "the training leaves the network idle in no long part of an iteration")
        idle = sum(span.end - span.begin for span in self._spans)
        said = f"the network is idle for {idle:.3g} s of iterations of {self._length:.3g} s"
        self._rung = self._quiet = 0
        return self._say("timetable", f"{said}, in {len(self._spans)} spans")

    def _say(self, mode: str, reason: str) -> None:
        self._mode, self._reason = mode, reason
        _log.info("ucp.memory: copies are sent by %s: %s", mode, reason)

    def _compare(self) -> None:
        """The last iterations with those that were watched; gives way, or takes back."""
        self._quiet += 1
        if self._quiet % _ITERATIONS != 0:
            return
        length = median(self._lengths)
        if length > max((1 + _LONGER) * max(self._length, self._usual), self._length + 2 * self._spread):
            self._quiet = 0
            if self._rung + 1 < len(_LADDER):
                self._rung += 1
            else:  # It is not the copies that make them longer.
                self._usual, self._reason = length, ""
        elif self._quiet >= _QUIET and self._rung > 0:
            self._quiet, self._rung = 0, self._rung - 1


def _counters() -> list[Path]:
    """Of bytes sent and received by all interfaces but the one inside."""
    return [path for path in Path(_INTERFACES).glob("*/statistics/[rt]x_bytes") if path.parts[-3] != "lo"]
