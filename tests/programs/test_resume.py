"""Runs that are killed or interrupted, and those that go on after them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import unittest

from failures import FailureTest, some_of, told

from programs import PROGRAMS

PARTIAL = ".out.ucp-partial"


class Resume(FailureTest):
    """--resume finishes, and does only what the journal does not vouch for."""

    def setUp(self) -> None:
        """A conversion into several files, in small chunks."""
        super().setUp()
        self.prepare(
            self.checkpoint("gpt_pp2_tp2_dp2"),
            "--to",
            "safetensors:states=all,max_shard=20KB",
            "--spec",
            "megatron_deepspeed_gpt",
            "--threads",
            1,
        )

    def changes(self) -> int:
        """How many calls of a run change files."""
        self.replace_out(None)
        count = self.wrong(1 << 40, f"C{signal.SIGKILL}").calls
        self.replace_out(None)
        return count

    def stop_at(self, part: float, number: signal.Signals = signal.SIGINT) -> None:
        """A run that is stopped after this part of its changes."""
        wrong = self.wrong(int(self.changes() * part), f"C{number}")
        self.assertTrue(wrong.happened)

    def resume(self, *more: object) -> str:
        """Goes on, to the end, in smaller chunks; what it prints."""
        result = self.run_program(
            "ucprun", "convert", self.source, self.out, *self.arguments, "--resume", "--memory", "24MiB", *more
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_complete("resumed")
        return result.stdout

    def test_killed_at_any_call(self) -> None:
        """SIGKILL before every call that changes a file (a sample of them in a test run), then --resume."""
        count = self.changes()
        for call in told(self.id(), sorted({*some_of(range(1, count + 1), 6, 14), count - 1, count})):
            self.replace_out(None)
            wrong = self.wrong(call, f"C{signal.SIGKILL}")
            self.assertEqual(wrong.result.returncode, -signal.SIGKILL)
            if self.out.exists():
                self.assert_complete(wrong.where)
            self.assert_finished_by(wrong.where, "--resume")

    def test_only_what_is_missing_is_done(self) -> None:
        """The elements that the journal vouches for are neither read nor written again."""
        self.stop_at(0.7)
        report = json.loads(self.resume("--json"))
        self.assertGreater(report["bytes_done_before"], 0)
        total = sum(len(content) for name, content in self.expected.items() if name != "ucp_manifest.json")
        self.assertLess(report["bytes_written"], total - report["bytes_done_before"] + 1)
        self.assertFalse(report["was_complete"])

    def test_an_interrupt_keeps_and_says_so(self) -> None:
        """Ctrl-C, SIGTERM and SIGHUP; and a run without --resume begins again."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            wrong = self.wrong(int(self.changes() * 0.6), f"C{number}")
            self.assertEqual(wrong.result.returncode, 130, wrong.result.stderr)
            self.assertEqual(
                wrong.result.stderr,
                f"ucprun: error: interrupted; what is done is kept in `{self.folder}/{PARTIAL}`: the same "
                "command with --resume continues from it, and without that option removes it\n",
            )
            self.assertFalse(self.out.exists())
            self.assertTrue((self.folder / PARTIAL).is_dir())
            self.assert_finished_by("interrupt", *(["--resume"] if number == signal.SIGINT else []))

    def test_what_was_ignored_stays_ignored(self) -> None:
        """SIGHUP under nohup: a conversion goes on when its terminal is closed."""
        self.replace_out(None)
        command = ["nohup", PROGRAMS / "ucprun", "convert", self.source, self.out, *self.arguments, "--max-bandwidth",
                   "400KB"]  # fmt: skip
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder) as run:  # fmt: skip
            while run.poll() is None and not (self.folder / PARTIAL).exists():
                time.sleep(0.002)
            run.send_signal(signal.SIGHUP)
            run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0)
        self.assert_complete("hung up")

    def test_an_interrupt_while_planning(self) -> None:
        """There is nothing to keep yet, and no folder was made."""
        load = [str(PROGRAMS / "ucprun"), "load", str(self.source), "--to", "universal", *map(str, self.arguments[2:])]
        for call in (20, 30, 45):
            wrongs = [
                self.wrong(call, f"S{signal.SIGINT}"),
                self.run_wrong(load, os.environ, self.going_wrong(call, f"S{signal.SIGINT}")),
            ]
            for wrong in wrongs:
                self.assertTrue(wrong.happened)
                self.assertEqual(
                    (wrong.result.returncode, wrong.result.stderr), (130, "ucprun: error: interrupted\n"), wrong.where
                )
            self.assertEqual([path.name for path in self.folder.iterdir() if "out" in path.name], [], wrongs[0].where)

    def test_what_a_trial_left_is_removed(self) -> None:
        """It is in the folder that is continued, and must not be in the one that appears."""
        self.stop_at(0.6)
        (self.folder / PARTIAL / ".ucp-trial").write_bytes(b"pieces")
        self.assertIn("went on", self.resume("--io", "buffered"))

    def test_a_finished_run_is_finished(self) -> None:
        """So a job script may say --resume always."""
        self.assertNotIn("went on", self.resume())
        self.assertIn("is complete already", self.resume())
        self.assertIn("is complete already", self.resume("--force"))

    def test_another_plan_is_refused(self) -> None:
        """With both hashes; and what is kept stays."""
        self.stop_at(0.6)
        result = self.run_program(
            "ucprun",
            "convert",
            self.source,
            self.out,
            "--to",
            "universal",
            "--spec",
            "megatron_deepspeed_gpt",
            "--resume",
        )
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(
            result.stderr,
            r"followed a plan with the hash [0-9a-f]{32}, and this command's plan has "
            r"[0-9a-f]{32}; repeat its command, or leave out --resume to begin again",
        )
        self.assertFalse(self.out.exists())
        result = self.run_program(
            "ucprun", "convert", self.source, self.out, *self.arguments, "--resume", "--ignore-crc"
        )
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("had no --ignore-crc, and this command has it", result.stderr)
        self.assertIn("went on", self.resume())

    def test_a_changed_source_is_refused(self) -> None:
        """Another file, or the same one written again."""
        self.stop_at(0.6)
        changed = sorted(self.source.rglob("*optim_states.pt"))[0]
        time = changed.stat().st_mtime_ns
        os.utime(changed, ns=(time, time + 1))
        result = self.run_program("ucprun", "convert", self.source, self.out, *self.arguments, "--resume")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(
            result.stderr,
            rf"`{changed}` was changed since the interrupted run read it: it was modified "
            r"[-0-9]+ [:0-9.]+ UTC, and [-0-9]+ [:0-9.]+ UTC then",
        )
        self.assertTrue((self.folder / PARTIAL).is_dir())
        os.utime(changed, ns=(time, time))
        self.assertIn("went on", self.resume())

    def test_a_torn_journal_does_not_count(self) -> None:
        """The entry before the last one does; and with neither, the run begins again."""
        self.stop_at(0.7)
        journals = sorted(self.folder.glob(".out.ucp-journal-*"))
        self.assertEqual(len(journals), 2)
        newest = max(journals, key=lambda path: int.from_bytes(path.read_bytes()[8:16], "little"))
        newest.write_bytes(newest.read_bytes()[:-1] + b"?")
        self.assertIn("went on", self.resume())
        self.stop_at(0.7)
        for journal in self.folder.glob(".out.ucp-journal-*"):
            journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
        self.assertNotIn("went on", self.resume())

    def test_what_is_kept_must_be_there(self) -> None:
        """A file that vanished from the hidden folder is named."""
        self.stop_at(0.7)
        vanished = min(path for path in (self.folder / PARTIAL).rglob("*.safetensors"))
        vanished.unlink()
        result = self.run_program("ucprun", "convert", self.source, self.out, *self.arguments, "--resume")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"`{vanished}`, which the interrupted run wrote, is not there as a file of", result.stderr)


if __name__ == "__main__":
    unittest.main()
