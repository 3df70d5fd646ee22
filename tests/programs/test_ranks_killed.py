"""Runs of several ranks are killed at any moment and in every way, and continued by other numbers of ranks.

UCP_KILLS=300 kills them that often.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from failures import FailureTest, Progress
from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT, ranks_of, seconds_until_ended

from programs import GPT_SPEC, PROGRAMS

KILLS = int(os.environ.get("UCP_KILLS", "6"))
SEED = int(os.environ.get("UCP_KILLS_SEED", "20261122"))
SETTINGS = ["layers=8", "hidden=256", "heads=4", "ffn=1024", "vocab=1000", "grain=16", "seq=8"]
SPEC = ["--spec", GPT_SPEC, *[word for setting in SETTINGS for word in ("--set", setting)]]
SECONDS_TO_END = 10  # After a rank or the launcher was killed.


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class KilledRanks(FailureTest):
    """A run of M ranks finishes the work that a run of N ranks left, with the bytes of one undisturbed rank."""

    def setUp(self) -> None:
        """A checkpoint of a hundred megabytes, and what one rank converts it to."""
        super().setUp()
        self.source = self.folder / "source"
        result = self.run_program(
            "ucprun", "synth", GPT_SPEC, self.source, "--to", "deepspeed:pp=2,tp=2,dp=2,zero=1", *SPEC[2:]
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.prepare(self.source, "--to", "deepspeed:pp=1,tp=4,dp=3,zero=1", *SPEC)

    def command(self, ranks: int, *more: object) -> list[str]:
        """One rank is started without a launcher."""
        launcher = ["mpirun", "-n", ranks] if ranks > 1 else []
        words = [*launcher, PROGRAMS / "ucprun", "convert", self.source, self.out, *self.arguments, *more]
        return [str(word) for word in words]

    def start(self, ranks: int, *more: object) -> subprocess.Popen[str]:
        """A run in the background."""
        return subprocess.Popen(
            self.command(ranks, *more),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def convert_on(self, ranks: int, *more: object) -> subprocess.CompletedProcess[str]:
        """A run to its end."""
        return subprocess.run(
            self.command(ranks, *more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=ENVIRONMENT,
        )

    def journals(self) -> list[Path]:
        """Of all ranks."""
        return [*self.folder.glob(".out.ucp-journal-*"), *self.folder.glob(".out.ucp-ranks/journal-*")]

    def stop(self, run: subprocess.Popen[str], generator: random.Random, what: str) -> None:
        """One rank is killed, the launcher is killed, or the launcher is interrupted; all end within seconds."""
        ranks = ranks_of(run) or [run.pid]
        way = generator.choice(("rank", "launcher", "interrupt"))
        victim = generator.choice(ranks) if way == "rank" else run.pid
        with contextlib.suppress(ProcessLookupError):  # It has come to its end.
            os.kill(victim, signal.SIGINT if way == "interrupt" else signal.SIGKILL)
        self.assertLess(
            seconds_until_ended([rank for rank in ranks if rank != run.pid]), SECONDS_TO_END, f"{what}: {way}"
        )
        try:
            run.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            # Open MPI's launcher has been seen to wait for itself for ever, in PMIx_server_finalize(), after all its
            # ranks had ended. Processes that are alone without a launcher are ours.
            run.kill()
            run.communicate()
            self.assertNotEqual(ranks, [run.pid], f"{what}: {way}")

    def assert_finished_on(self, ranks: int, what: str) -> None:
        """One more run, and all is there and nothing else."""
        result = self.convert_on(ranks, "--resume")
        self.assertEqual(result.returncode, 0, f"after {what}, on {ranks}: {result.stderr}")
        self.assert_complete(f"after {what}, on {ranks}")
        left = [path.name for path in self.folder.iterdir() if path.name.startswith(".out")]
        self.assertEqual(left, [], f"after {what}")

    def test_killed_at_any_moment(self) -> None:
        """Again and again, until a run comes to its end; then the next conversion begins."""
        generator = random.Random(SEED)
        kills = 0
        of_several = 0
        progress = Progress(self.id(), KILLS)
        while progress.goes_on(kills):
            ranks = generator.choice((1, 2, 3, 4))
            what = f"seed {SEED}, kill {kills}, {ranks} ranks"
            more = [
                "--threads",
                generator.choice((1, 2)),
                "--memory",
                generator.choice(("32MiB", "1GiB")),
                "--max-bandwidth",
                f"{generator.choice((20, 60, 200)) // ranks}MB",
                "--journal-every",
                0.05,
            ]
            with self.start(ranks, "--resume", *more) as run:
                # Until it has begun, and then some more; a launcher takes its time.
                deadline = time.monotonic() + 20
                while run.poll() is None and time.monotonic() < deadline and not any(self.folder.glob(".out.ucp-lock")):
                    time.sleep(0.002)
                time.sleep(generator.uniform(0, 1.5))
                self.stop(run, generator, what)
            kills += run.returncode != 0
            of_several += any(self.folder.glob(".out.ucp-ranks/journal-*"))
            if self.out.exists():
                self.assert_complete(what)
            if self.out.exists() or generator.random() < 0.25:
                self.assert_finished_on(generator.choice((1, 2, 3)), what)
                self.replace_out(None)
        self.assert_finished_on(2, "the last kill")
        self.assertGreater(of_several, kills // 8, "killed too early or too late to show anything")

    def interrupted(self, ranks: int, *more: object) -> subprocess.Popen[str]:
        """A run that is interrupted, at the launcher, when something was kept."""
        self.replace_out(None)
        with self.start(ranks, "--max-bandwidth", "10MB", "--journal-every", 0.1, *more) as run:
            while run.poll() is None and len(self.journals()) < ranks:
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            run.wait(timeout=30)
            self.stderr = run.stderr.read() if run.stderr else ""
        return run

    def test_several_ranks_write_one_file(self) -> None:
        """Two large files, of which each rank writes stretches: interrupted, killed, and finished by other ranks."""
        self.prepare(self.source, "--to", "deepspeed:pp=1,tp=1,dp=2,zero=1", *SPEC)
        self.assertGreater(max(len(content) for content in self.expected.values()), 24 << 20)
        self.replace_out(None)
        self.assert_finished_on(4, "nothing")
        for ranks, then in ((3, 2), (2, 4), (4, 1)):
            self.interrupted(ranks)
            self.assertIn("what is done is kept in", self.stderr)
            with self.start(then, "--resume", "--max-bandwidth", "10MB", "--journal-every", 0.1) as again:
                time.sleep(1.5)
                self.stop(again, random.Random(ranks), f"{ranks} ranks, then {then}")
            self.assert_finished_on(ranks, f"{ranks} ranks, then {then}")

    def test_a_rank_that_does_not_answer(self) -> None:
        """It is waited for, since a disk may take long; when the run is asked to stop, it ends all the same."""
        self.replace_out(None)
        with self.start(3, "--max-bandwidth", "10MB") as run:
            while len(ranks := ranks_of(run)) < 3 or not (self.folder / ".out.ucp-partial").exists():
                time.sleep(0.01)
            os.kill(ranks[-1], signal.SIGSTOP)
            try:
                os.kill(ranks[0], signal.SIGTERM)
                self.assertLess(seconds_until_ended(ranks[:1], limit=60), 40)
            finally:
                for rank in ranks:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(rank, signal.SIGKILL)
            _, said = run.communicate(timeout=30)
        self.assertIn(
            "interrupted, and not at an end 20 seconds later, as when another rank does not answer; no half "
            "checkpoint is left\n",
            said,
        )
        self.assertFalse(self.out.exists())
        self.assert_finished_on(1, "a rank that did not answer")

    def slow(self, *more: object) -> subprocess.Popen[str]:
        """A run of three ranks that lasts for minutes, and has kept something."""
        self.replace_out(None)
        run = self.start(3, "--max-bandwidth", "2MB", "--journal-every", 0.1, *more)
        deadline = time.monotonic() + 30
        while len(self.journals()) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        return run

    def test_a_stopped_rank_ends_the_run(self) -> None:
        """The others name it after two seconds, and `--resume` goes on from what all of them kept."""
        with self.slow("--rank-timeout", 2) as run:
            ranks = ranks_of(run)
            os.kill(ranks[1], signal.SIGSTOP)
            self.assertLess(seconds_until_ended(ranks), 2 + SECONDS_TO_END)
            _, said = run.communicate(timeout=30)
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(said.count("ucprun: error: "), 1, said)
        self.assertRegex(said, rf"ucprun: error: rank 1 \(process {ranks[1]} on \S+\) has not answered for 2 seconds")
        self.assertIn("The same command with --resume goes on from what is written", said)
        self.assertGreater(len(self.journals()), 0)
        self.assert_finished_on(2, "a stopped rank")

    def test_a_killed_rank_is_named(self) -> None:
        """The launcher also says so; our message names the next step."""
        with self.slow() as run:
            ranks = ranks_of(run)
            os.kill(ranks[2], signal.SIGKILL)
            self.assertLess(seconds_until_ended(ranks), SECONDS_TO_END)
            _, said = run.communicate(timeout=30)
        self.assertEqual(said.count("ucprun: error: "), 1, said)
        self.assertRegex(said, rf"rank 2 \(process {ranks[2]} on \S+\) ended while the others still needed it")
        self.assert_finished_on(1, "a killed rank")

    def test_a_job_that_is_stopped_and_continued_goes_on(self) -> None:
        """As a scheduler suspends it: nobody waited meanwhile."""
        with self.slow("--rank-timeout", 3) as run:
            ranks = ranks_of(run)
            for rank in ranks:
                os.kill(rank, signal.SIGSTOP)
            time.sleep(7)
            for rank in ranks:
                os.kill(rank, signal.SIGCONT)
            time.sleep(2)
            self.assertIsNone(run.poll())
            os.kill(run.pid, signal.SIGINT)
            _, said = run.communicate(timeout=40)
        self.assertNotIn("has not answered", said)

    def test_a_read_that_hangs_ends_the_run(self) -> None:
        """The rank lives; the file that it reads is named."""
        self.replace_out(None)
        command = ["mpirun"]
        for rank in range(3):
            hanging = [f"{name}={value}" for name, value in self.going_wrong(20, "HANG").items()] if rank == 1 else []
            hanging += [f"UCP_FAILING_CALL_UNDER={self.source}", "UCP_FAILING_CALL_NAME=pread"] if rank == 1 else []
            program = ["env", *hanging, str(PROGRAMS / "ucprun"), "convert", str(self.source), str(self.out)]
            command += [*([":"] if rank else []), "-n", "1", *program, *map(str, self.arguments)]
            command += ["--rank-timeout", "2", "--io", "buffered"]
        result = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
        )
        self.assertNotEqual(result.returncode, 0)
        self.assertTrue((self.folder / "call.log").exists(), result.stderr)
        said = rf"error: rank 1 \(process \d+ on \S+\) has been reading `{self.source}/\S+` for 2 seconds; its disk or"
        self.assertRegex(result.stderr, said)
        self.assert_finished_on(2, "a read that hung")

    def test_an_interrupt_keeps_and_says_so(self) -> None:
        """And what was done is not done again."""
        self.interrupted(3)
        self.assertEqual(self.stderr.count("what is done is kept in"), 1, self.stderr)
        self.assertFalse(self.out.exists())
        result = self.convert_on(2, "--resume", "--json")
        report = json.loads(result.stdout)
        self.assertGreater(report["bytes_done_before"], 0)
        total = sum(len(content) for name, content in self.expected.items() if name != "ucp_manifest.json")
        self.assertLess(report["bytes_written"], total - report["bytes_done_before"] + 1)
        self.assert_complete("resumed")
        again = self.convert_on(3, "--resume")
        self.assertEqual((again.returncode, again.stdout.count("is complete already")), (0, 1), again.stderr)

    def test_what_is_refused(self) -> None:
        """As with one rank: another plan, a source that changed; and what is kept stays."""
        self.interrupted(3)
        other = subprocess.run(
            [
                "mpirun",
                "-n",
                "2",
                str(PROGRAMS / "ucprun"),
                "convert",
                str(self.source),
                str(self.out),
                "--to",
                "universal",
                *map(str, SPEC),
                "--resume",
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertEqual(other.stderr.count("followed a plan with the hash"), 1, other.stderr)
        changed = sorted(self.source.rglob("*optim_states.pt"))[0]
        modified = changed.stat().st_mtime_ns
        os.utime(changed, ns=(modified, modified + 1))
        refused = self.convert_on(2, "--resume")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertEqual(refused.stderr.count("was changed since the interrupted run read it"), 1, refused.stderr)
        os.utime(changed, ns=(modified, modified))
        self.assert_finished_on(4, "two refusals")

    def test_a_rank_that_lives_holds_the_folder(self) -> None:
        """Rank 0 is gone, and with it its lock; another one may still write."""
        with self.start(2, "--max-bandwidth", "4MB", "--journal-every", 0.1) as run:
            while run.poll() is None and len(self.journals()) < 2:
                time.sleep(0.01)
            ranks = ranks_of(run)
            os.kill(run.pid, signal.SIGSTOP)  # It would end the others.
            os.kill(ranks[1], signal.SIGSTOP)
            os.kill(ranks[0], signal.SIGKILL)
            seconds_until_ended(ranks[:1])
            result = self.convert_on(1, "--resume")
            os.kill(ranks[1], signal.SIGKILL)
            os.kill(run.pid, signal.SIGCONT)
            run.communicate(timeout=30)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(
            f"it holds `{self.folder}/.out.ucp-ranks/lock-1`: a rank of a run whose first rank is gone", result.stderr
        )
        self.assert_finished_on(1, "a rank that lived on")


class KilledNodes(KilledRanks):
    """Each rank sees a part of the source, in a folder of its own. One rank alone is where all of it is seen."""

    def setUp(self) -> None:
        """Two nodes, which have every second file each, and some both."""
        super().setUp()
        for number, path in enumerate(sorted(path for path in self.source.rglob("*") if path.is_file())):
            for node in (0, 1) if number % 5 == 0 else (number % 2,):
                copy = self.folder / f"node-{node}" / "source" / path.relative_to(self.source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)

    def command(self, ranks: int, *more: object) -> list[str]:
        """Ranks by turns on the two nodes."""
        if ranks == 1:
            return super().command(ranks, *more)
        command = ["mpirun"]
        for rank in range(ranks):
            command += [":"] if rank else []
            command += [
                "-n",
                "1",
                "--wdir",
                str(self.folder / f"node-{rank % 2}"),
                str(PROGRAMS / "ucprun"),
                "convert",
                "source",
                str(self.out),
                *map(str, self.arguments),
                *map(str, more),
                "--node-local",
                "source",
            ]
        return command

    # They test nothing different where the source is in parts.
    test_what_is_refused = None
    test_a_job_that_is_stopped_and_continued_goes_on = None
    test_a_read_that_hangs_ends_the_run = None
    test_a_rank_that_lives_holds_the_folder = None


if __name__ == "__main__":
    unittest.main()
