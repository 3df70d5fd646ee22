"""A save that goes on, and the points that it reaches."""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from ucp_checkpoint import _ucp

STAGING, STAGED, DONE = 1, 2, 3  # SaveStep
_SECONDS_BETWEEN_SIGNALS = 0.1  # Python handles them between two waits.
# A thread within the extension module when the interpreter ends would end the process with it.
_waiting: set[int] = set()
_ends = threading.Event()


@atexit.register
def _hold_threads() -> None:
    _ends.set()
    until = time.monotonic() + 1
    while _waiting and time.monotonic() < until:
        time.sleep(0.005)


class Progress:
    """How far a save has come on this rank."""

    def __init__(self, client: _ucp.SaveClient, number: int, state: object) -> None:
        self.number = number
        self.is_seen = False  # Its error has been raised.
        self._client = client
        self._state: object = state  # With the tensors that are staged: their memory must stay.

    def has_reached(self, step: int, seconds: float) -> bool:
        """Waits for so long at most. Raises the error of a save that has failed."""
        return self._wait(lambda: self._client.wait(self.number, step, seconds))

    def has_reached_wave(self, wave: int, seconds: float) -> bool:
        """Whether the caller may stage it. Waits, and raises, likewise."""
        return self._wait(lambda: self._client.wait_for_wave(self.number, wave, seconds))

    @staticmethod
    def _wait(call: Callable[[], bool]) -> bool:
        thread = threading.get_ident()
        if _ends.is_set() and thread != threading.main_thread().ident:
            threading.Event().wait()  # A daemon thread has nothing to do any more.
        _waiting.add(thread)
        try:
            return call()
        finally:
            _waiting.discard(thread)

    def wait_for(self, step: int, timeout: float | None = None) -> None:
        """Until it has come so far. Raises the error of a save that has failed, and TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SECONDS_BETWEEN_SIGNALS if until is None else until - time.monotonic()
            if self.has_reached(step, min(max(left, 0), _SECONDS_BETWEEN_SIGNALS)):
                return
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"the save has not come so far within {timeout} s")

    def has_failed_or_reached(self, step: int) -> bool:
        """Without waiting."""
        try:
            return self.has_reached(step, 0)
        except _ucp.Error:
            return True

    def is_staged(self) -> bool:
        """And has not failed."""
        try:
            return self.has_reached(STAGED, 0)
        except _ucp.Error:
            return False

    def release(self) -> None:
        """It has ended: nothing of the job's state is needed for it any more."""
        self._state = None

    def report(self) -> str:
        """Of a save that has ended well."""
        return self._client.report(self.number)


class Step:
    """A point that a save reaches: `staged`, or `durable`."""

    def __init__(self, progress: Progress, step: int) -> None:
        self._progress, self._step = progress, step

    def done(self) -> bool:
        """Whether it is reached, or the save has failed."""
        return self._progress.has_failed_or_reached(self._step)

    def result(self, timeout: float | None = None) -> None:
        """Waits until it is reached. Raises the error of a save that has failed, and TimeoutError."""
        try:
            self._progress.wait_for(self._step, timeout)
        except _ucp.Error:
            self._progress.is_seen = True
            raise


class Saving:
    """A save that goes on."""

    def __init__(self, progress: Progress, path: str) -> None:
        self.path = path
        self.staged = Step(progress, STAGED)  # From then on the state may change.
        self.durable = Step(progress, DONE)  # The checkpoint is complete at its path.
        self.progress = progress  # For the Saver.

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.durable.done()

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end. Returns what `ucprun convert --json` prints of a conversion."""
        self.durable.result(timeout)
        report: dict[str, Any] = json.loads(self.progress.report())
        return report
