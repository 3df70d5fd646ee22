"""Every system call of one rank goes wrong once, or the rank is killed there, while each node gets a part.

A test run takes a sample of them, UCP_CALLS=all takes all.
"""

from __future__ import annotations

import errno
import random
import shutil
import signal
import time
import unittest

from failures import CALLS, FailureTest, Wrong, some_of, told
from nodes import NodeTest
from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT, seconds_until_left

from programs import PROGRAMS

NODES = 2  # With one rank each.
SAMPLE = {0: 2, 1: 3}  # Calls of each rank.
SECONDS = 60  # A run takes one or two, and ten times as long on a busy machine.
SECONDS_TO_END = 10  # After a rank was killed.
FATAL = (errno.EIO, errno.ENOSPC, errno.ENOENT, errno.EACCES) if CALLS else (errno.EIO,)
KILLED = f"C{signal.SIGKILL}"
# A rank, and whether there was something at the destination before.
CASES = ((0, False), (0, True), (1, False), (1, True)) if CALLS else ((0, True), (1, False))


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class FailingParts(NodeTest, FailureTest):
    """One rank's error is everybody's; nobody waits for ever; each part is old or complete; one more run finishes."""

    def setUp(self) -> None:
        """Parts before, and those that are to be."""
        super().setUp()
        self.source = self.checkpoint("zero2_dp4")
        self.make_nodes(NODES)
        self.words = (
            "convert",
            self.source,
            "out",
            "--node-local",
            "destination",
            "--threads",
            1,
            "--journal-every",
            0,
        )
        self.before = self.made("--to", "deepspeed:dp=2,zero=1")
        self.after = self.made("--to", "deepspeed:dp=4,zero=1")
        self.words += ("--to", "deepspeed:dp=4,zero=1", "--force")

    def made(self, *words: object) -> list[dict[str, bytes]]:
        """By a run that nothing happens to."""
        result = self.mpirun([1] * NODES, *self.words, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        parts = [self.part(node) for node in range(NODES)]
        for node in range(NODES):
            shutil.rmtree(self.folder / f"node-{node}" / "out")
        return parts

    def put_back(self, replaces: bool) -> None:
        """The old files, or nothing."""
        for node in range(NODES):
            folder = self.folder / f"node-{node}"
            shutil.rmtree(folder)
            folder.mkdir()
            for name, content in self.before[node].items() if replaces else ():
                (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / "out" / name).write_bytes(content)

    def wrong_on(self, rank: int, call: int, what: str) -> Wrong:
        """Only calls on files of the test count, and not those of MPI."""
        environment = self.going_wrong(call, what) | {"UCP_FAILING_CALL_UNDER": str(self.folder)}
        words = []
        for node in range(NODES):
            given = [f"{name}={value}" for name, value in environment.items()] if node == rank else []
            words += [":", "-n", "1", "--wdir", str(self.folder / f"node-{node}"), "env", *given,
                      str(PROGRAMS / "ucprun"), *map(str, self.words)]  # fmt: skip
        began = time.monotonic()
        wrong = self.run_wrong(["mpirun", *words[1:]], ENVIRONMENT)
        self.assertLess(time.monotonic() - began, SECONDS, wrong.where)
        return wrong

    def calls(self, rank: int, what: str, replaces: bool) -> list[int]:
        """The calls that fail: a sample, and some of the last ones, which are those of the commit."""
        self.put_back(replaces)
        whole = self.wrong_on(rank, 1 << 40, what)
        self.assertEqual(whole.result.returncode, 0, whole.result.stderr)
        self.assertGreater(whole.calls, 10, f"rank {rank}, {what}")
        if CALLS:
            return some_of(range(1, whole.calls + 1), rank, SAMPLE[rank])
        generator = random.Random(rank)
        last = range(max(1, whole.calls - 30), whole.calls + 1)
        return sorted({*generator.sample(range(1, whole.calls + 1), SAMPLE[rank]), *generator.sample(last, 2)})

    def assert_old_or_complete(self, where: str, replaces: bool) -> int:
        """Each part for itself; how many are complete."""
        self.assertLess(seconds_until_left(self.folder), SECONDS_TO_END, where)
        complete = 0
        for node in range(NODES):
            there = self.part(node)
            self.assertIn(there, (self.before[node] if replaces else {}, self.after[node]), f"{where}, node {node}")
            complete += there == self.after[node]
        return complete

    def assert_resumed(self, where: str) -> None:
        """One more run, and all is there and nothing else."""
        result = self.mpirun([1] * NODES, *self.words, "--resume")
        self.assertEqual(result.returncode, 0, f"after {where}: {result.stderr}")
        for node in range(NODES):
            self.assertEqual(self.part(node), self.after[node], f"after {where}, node {node}")
            left = [path.name for path in (self.folder / f"node-{node}").iterdir()]
            self.assertEqual(left, ["out"], f"after {where}, node {node}")

    def test_an_error_of_one_rank(self) -> None:
        """One sentence; and if it is an error, no part is new, but where one could not be cleaned up behind."""
        for rank, replaces in CASES:
            for error in FATAL:
                calls = self.calls(rank, str(error), replaces)
                for call in told(f"{self.id()}, rank {rank}, replaces {replaces}, {error}", calls):
                    self.put_back(replaces)
                    wrong = self.wrong_on(rank, call, str(error))
                    where = f"rank {rank}, replaces {replaces}, call {call}, error {error}: {wrong.where}"
                    self.assertTrue(wrong.happened, where)
                    complete = self.assert_old_or_complete(where, replaces)
                    self.assertIn(complete, (0, NODES), where)
                    if wrong.result.returncode != 0:
                        self.assert_one_sentence(wrong)
                        self.assertTrue(complete == 0 or "is complete, but" in wrong.result.stderr, where)
                    self.assert_resumed(where)

    def test_a_rank_is_killed_at_a_call(self) -> None:
        """Before a call that changes a file; between two renames it leaves one part of two, never taken for all."""
        incomplete = 0
        for rank, replaces in CASES:
            calls = self.calls(rank, KILLED, replaces)
            renames = self.calls_around_rename(rank, replaces) if rank == 1 else []
            calls = sorted({*(calls if CALLS else calls[::3]), *renames})
            for call in told(f"{self.id()}, rank {rank}, replaces {replaces}", calls, renames):
                self.put_back(replaces)
                wrong = self.wrong_on(rank, call, KILLED)
                where = f"rank {rank}, replaces {replaces}, killed at call {call}: {wrong.where}"
                self.assertTrue(wrong.happened, where)
                self.assertNotEqual(wrong.result.returncode, 0, where)
                if self.assert_old_or_complete(where, replaces) == 1:
                    incomplete += 1
                    read = self.mpirun([1] * NODES, "inspect", "out", "--node-local", "source")
                    self.assert_one_error(read, 2, "--resume finishes it" if replaces else "of 2 is at none of")
                self.assert_resumed(where)
        self.assertGreater(incomplete, 0, "no run was killed between two renames")

    def calls_around_rename(self, rank: int, replaces: bool) -> list[int]:
        """The call by which its part appears, and the one before it."""
        self.put_back(replaces)
        calls = self.wrong_on(rank, 1 << 40, KILLED).calls
        for call in range(calls, 1, -1):
            self.put_back(replaces)
            if self.wrong_on(rank, call, KILLED).call.startswith("rename"):
                return [call - 1, call]
        return []


if __name__ == "__main__":
    unittest.main()
