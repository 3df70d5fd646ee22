"""A conversion of some size is killed at any moment, and continued. UCP_KILLS=300 kills it that often."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import unittest

from failures import FailureTest, Progress, told

from programs import GPT_SPEC, PROGRAMS, files_of

KILLS = int(os.environ.get("UCP_KILLS", "12"))
SEED = int(os.environ.get("UCP_KILLS_SEED", "20261121"))
SETTINGS = ["layers=8", "hidden=256", "heads=4", "ffn=1024", "vocab=1000", "grain=16", "seq=8"]


class Killed(FailureTest):
    """Several threads, and a journal every few milliseconds."""

    def setUp(self) -> None:
        """A checkpoint of a hundred megabytes, and what it is converted to."""
        super().setUp()
        self.source = self.folder / "source"
        words = ["--spec", GPT_SPEC, *[word for setting in SETTINGS for word in ("--set", setting)]]
        result = self.run_program(
            "ucprun", "synth", GPT_SPEC, self.source, "--to", "deepspeed:pp=2,tp=2,dp=2,zero=1", *words[2:]
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.prepare(self.source, "--to", "deepspeed:pp=1,tp=4,dp=3,zero=1", *words)

    def start(self, *more: object) -> subprocess.Popen[str]:
        """A run in the background."""
        command = [
            PROGRAMS / "ucprun",
            "convert",
            self.source,
            self.out,
            *self.arguments,
            "--journal-every",
            0.01,
            *more,
        ]
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def random_ways(self, generator: random.Random) -> list[object]:
        """Threads and memory differ from run to run, and nothing of the result depends on them."""
        return ["--threads", generator.choice((1, 2, 8)), "--memory", generator.choice(("32MiB", "64MiB", "1GiB"))]

    def test_killed_at_any_moment(self) -> None:
        """Again and again, until a run comes to its end; then the next conversion begins."""
        generator = random.Random(SEED)
        began = time.monotonic()
        with self.start() as whole:
            whole.communicate(timeout=60)
        seconds = time.monotonic() - began
        self.assert_complete("not killed")
        self.replace_out(None)
        kills = 0
        went_on = 0
        progress = Progress(self.id(), KILLS)
        while progress.goes_on(kills):
            with self.start("--resume", *self.random_ways(generator)) as run:
                time.sleep(generator.uniform(0, 1.2 * seconds))
                run.send_signal(signal.SIGKILL)
                run.communicate(timeout=60)
            what = f"seed {SEED}, kill {kills}"
            self.assertIn(run.returncode, (0, -signal.SIGKILL), what)
            kills += run.returncode != 0
            went_on += any(self.folder.glob(".out.ucp-journal-*"))
            if self.out.exists():
                self.assert_complete(what)
            if self.out.exists() or generator.random() < 0.2:
                self.assert_finished_by(what, "--resume", *self.random_ways(generator))
                self.replace_out(None)
        self.assert_finished_by("the last kill", "--resume")
        self.assertEqual(self.run_program("ucprun", "verify", self.out, *self.arguments[2:]).returncode, 0)
        self.assertGreater(went_on, kills // 8, "killed too early or too late to show anything")

    def test_killed_while_it_replaces(self) -> None:
        """With --force, the old checkpoint is there until the new one is."""
        generator = random.Random(SEED + 1)
        old = self.folder / "old"
        result = self.run_program("ucprun", "convert", self.source, old, "--to", "universal", *self.arguments[2:])
        self.assertEqual(result.returncode, 0, result.stderr)
        for kill in told(self.id(), list(range(max(1, KILLS // 4)))):
            self.replace_out(None)
            subprocess.run(["cp", "-r", str(old), str(self.out)], check=True)
            with self.start("--force", *self.random_ways(generator)) as run:
                time.sleep(generator.uniform(0, 0.5))
                run.send_signal(signal.SIGKILL)
                run.communicate(timeout=60)
            what = f"seed {SEED}, replacing, kill {kill}"
            if (self.out / "latest_universal").exists():
                self.assertEqual(files_of(self.out), files_of(old), what)
            else:
                self.assert_complete(what)
            self.assert_finished_by(what, "--force", "--resume")

    def test_interrupted_twice(self) -> None:
        """The second Ctrl-C ends at once, and what the journal has is kept."""
        for _ in told(self.id(), list(range(max(1, KILLS // 6)))):
            self.replace_out(None)
            with self.start() as run:
                while run.poll() is None and not any(self.folder.glob(".out.ucp-journal-*")):
                    time.sleep(0.001)
                run.send_signal(signal.SIGINT)
                run.send_signal(signal.SIGINT)
                _, said = run.communicate(timeout=10)
            self.assertIn(run.returncode, (0, 130))
            if run.returncode == 130:  # The two may have come as one.
                self.assertRegex(said, r"\A(\nstopped at once; no half checkpoint is left|ucprun: error: interrupted)")
            self.assert_finished_by("two interrupts", "--resume")


if __name__ == "__main__":
    unittest.main()
