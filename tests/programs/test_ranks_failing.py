"""Every system call of one rank of several goes wrong once, or the rank is killed there.

A test run takes a sample of them, UCP_CALLS=all takes all.
"""

from __future__ import annotations

import errno
import signal
import time
import unittest

from failures import CALLS, FailureTest, Wrong, some_of, told
from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT, seconds_until_left

RANKS = 3
SAMPLE = {0: 4, 1: 3, 2: 2}  # Calls of each rank.
SECONDS = 60  # A run takes one or two, and ten times as long on a busy machine.
SECONDS_TO_END = 10  # After a rank was killed.
FATAL = (errno.EIO, errno.ENOSPC, errno.ENOENT, errno.EACCES) if CALLS else (errno.EIO,)


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class FailingRanks(FailureTest):
    """One rank's error is everybody's, and one sentence; nobody waits for ever; one more run finishes."""

    def setUp(self) -> None:
        """Files for all ranks."""
        super().setUp()
        self.prepare(self.checkpoint("zero2_dp4"), "--to", "deepspeed:dp=4,zero=1", "--threads", 1)

    def wrong_on(self, rank: int, call: int, what: str) -> Wrong:
        """Only calls on files of the test count, and not those of MPI."""
        words = self.command()
        environment = self.going_wrong(call, what) | {"UCP_FAILING_CALL_UNDER": str(self.folder)}
        given = ["env", *(f"{name}={value}" for name, value in environment.items())]
        parts = [["-n", str(rank), *words]] if rank > 0 else []
        parts.append(["-n", "1", *given, *words])
        if rank + 1 < RANKS:
            parts.append(["-n", str(RANKS - 1 - rank), *words])
        joined = [word for part in parts for word in (":", *part)]
        began = time.monotonic()
        wrong = self.run_wrong(["mpirun", *joined[1:]], ENVIRONMENT)
        self.assertLess(time.monotonic() - began, SECONDS, wrong.where)
        return wrong

    def calls(self, rank: int, what: str) -> list[int]:
        """The calls that fail; the last ones of rank 0 are those of the commit."""
        self.replace_out(None)
        whole = self.wrong_on(rank, 1 << 40, what)
        self.assertEqual(whole.result.returncode, 0, whole.result.stderr)
        self.assert_complete(f"rank {rank}")
        self.assertGreater(whole.calls, 10, f"rank {rank}, {what}")
        return some_of(range(1, whole.calls + 1), rank, SAMPLE[rank])

    def assert_as_before_or_complete(self, where: str) -> None:
        """All have ended, nothing partial is at the destination, and one more run, of one rank, brings all."""
        self.assertLess(seconds_until_left(self.folder), SECONDS_TO_END, where)
        if self.out.exists():
            self.assert_complete(where)
        self.assert_finished_by(where, "--resume")

    def test_an_error_of_one_rank(self) -> None:
        """A device that fails, for one of them."""
        for rank in range(RANKS):
            for error in FATAL:
                for call in told(f"{self.id()}, rank {rank}, {error}", self.calls(rank, str(error))):
                    self.replace_out(None)
                    wrong = self.wrong_on(rank, call, str(error))
                    where = f"rank {rank}, call {call}, error {error}: {wrong.where}"
                    self.assertTrue(wrong.happened, where)
                    if wrong.result.returncode != 0:
                        self.assert_one_sentence(wrong)
                        if rank > 0:
                            self.assertIn(f"ucprun: error: rank {rank} of {RANKS}: ", wrong.result.stderr, where)
                    self.assert_as_before_or_complete(where)

    def test_a_rank_is_killed_at_a_call(self) -> None:
        """Before a call that changes a file; the launcher ends the others."""
        what = f"C{signal.SIGKILL}"
        for rank in range(RANKS):
            for call in told(f"{self.id()}, rank {rank}", self.calls(rank, what)[:: 1 if CALLS else 2]):
                self.replace_out(None)
                wrong = self.wrong_on(rank, call, what)
                where = f"rank {rank} killed at call {call}: {wrong.where}"
                self.assertTrue(wrong.happened, where)
                self.assertNotEqual(wrong.result.returncode, 0, where)
                self.assert_as_before_or_complete(where)


if __name__ == "__main__":
    unittest.main()
