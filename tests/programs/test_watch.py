"""The output of a conversion while it runs: phases, events, a timeline, progress; and the bound on its bandwidth."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import termios
import time
import unittest
from pathlib import Path

from programs import PROGRAMS, ProgramTest

CASE = "zero2_dp2"
PHASES = ["describe", "bind", "lay out", "plan", "verify", "prepare", "create", "move", "check", "commit"]


class Watch(ProgramTest):
    """Conversions that are watched."""

    def test_times_of_phases_are_in_the_report(self) -> None:
        result = self.convert(self.checkpoint(CASE), "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        self.assertEqual([phase["phase"] for phase in report["phases"]], PHASES)
        self.assertTrue(all(phase["seconds"] >= 0 for phase in report["phases"]))
        self.assertGreater(report["threads"] * report["chunk_bytes"], 0)
        self.assertGreater(report["peak_memory_bytes"], report["buffer_bytes"] // 100)
        self.assertEqual(len(report["choices"]), 4)

    def test_verbose_is_for_people(self) -> None:
        result = self.convert(self.checkpoint(CASE), "--verbose", "--threads", "3")
        self.assertEqual(result.returncode, 0)
        lines = result.stderr.splitlines()
        for line, phase in zip(lines, PHASES, strict=False):
            self.assertRegex(line, rf"^{phase} +\d+\.\d{{3}} s$")
        self.assertRegex(lines[-4], r"^\S+ \S+ at a time for each of 3 threads; buffers \S+ \S+ of 1GiB$")
        self.assertRegex(lines[-1], r"^\d+ files and \d+ folders, each synced by itself: ")
        self.assertEqual(
            [line.split(":")[0] for line in lines[-3:-1]],
            [f"large files are {what} through the page cache" for what in ("read", "written")],
        )
        self.assertEqual(len(lines), len(PHASES) + 4)

    def events_of(self, text: str) -> list[dict[str, object]]:
        """One object a line, in the order of their times."""
        events = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([event["at"] for event in events], sorted(event["at"] for event in events))
        return events

    def test_events(self) -> None:
        """To a file and to standard output, which then has nothing else; the report is that of --json."""
        source = self.checkpoint(CASE)
        log = self.folder / "events"
        result = self.convert(source, "--events", log, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        events = self.events_of(log.read_text())
        self.assertEqual(events[-1]["event"], "report")
        self.assertEqual({**events[-1]["report"], "version": events[-1]["version"]}, json.loads(result.stdout))
        begun = [event["phase"] for event in events if event["event"] == "phase_begin"]
        self.assertEqual(begun, PHASES)
        ended = {event["phase"]: event["seconds"] for event in events if event["event"] == "phase_end"}
        report = events[-1]["report"]
        self.assertEqual(ended, {phase["phase"]: phase["seconds"] for phase in report["phases"]})
        progress = [event for event in events if event["event"] == "progress"]
        self.assertEqual(progress[-1]["bytes_done"], progress[-1]["bytes_total"])
        self.assertEqual(progress[-1]["files_done"], report["target_files"])

        again = self.run_program("ucprun", "convert", source, self.out, "--to", "universal", "--force", "--events", "-")
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertEqual(self.events_of(again.stdout)[-1]["report"]["bytes_written"], report["bytes_written"])

        failed = self.run_program("ucprun", "convert", source, self.out, "--to", "universal", "--events", "-", "--json")
        self.assertEqual(failed.returncode, 1)
        (error,) = (event["error"] for event in self.events_of(failed.stdout) if event["event"] == "error")
        self.assertEqual(failed.stderr, f"ucprun: error: {error['message']}\n")
        self.assertEqual(error["code"], "usage")

        planned = self.run_program("ucprun", "convert", source, "x", "--to", "universal", "--dry-run", "--events", "-")
        self.assertIn("bytes_to_copy", self.events_of(planned.stdout)[-1]["report"])

    def test_a_timeline(self) -> None:
        """All that was read and written is in it, and every chunk lies in its phase."""
        path = self.folder / "timeline.json"
        result = self.convert(self.checkpoint(CASE), "--timeline", path, "--threads", "2", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        events = [event for event in json.loads(path.read_text()) if event["ph"] == "X"]
        written = sum(event["args"]["bytes"] for event in events if event["name"] == "write")
        self.assertGreaterEqual(written, report["bytes_written"])
        self.assertLess(written, report["bytes_written"] + 20_000)  # The manifest.
        self.assertTrue({"open", "create", "sync", "rename", "close", "read"} <= {event["name"] for event in events})
        (move,) = (event for event in events if event["name"] == "move")
        self.assertEqual(move["tid"], 0)
        chunks = [event for event in events if event["name"].endswith((" fp32", " exp_avg", " exp_avg_sq"))]
        self.assertEqual(len(chunks), 51)
        self.assertEqual(sum(chunk["args"]["bytes"] for chunk in chunks), self.bytes_moved(result.stdout))
        for chunk in chunks:
            self.assertLessEqual(move["ts"], chunk["ts"] + 1)
            self.assertGreaterEqual(move["ts"] + move["dur"], chunk["ts"] + chunk["dur"] - 1)
        rows = {event["tid"] for event in events}
        self.assertTrue(rows <= {0, 1, 2}, rows)

    def bytes_moved(self, report: str) -> int:
        """Of elements; no state of this case is cast."""
        return int(json.loads(report)["bytes_to_copy"])

    def test_what_cannot_be_written(self) -> None:
        source = self.checkpoint(CASE)
        precious = self.folder / "precious"
        precious.write_text("not of ours")
        for what in ("events", "timeline"):
            result = self.convert(source, f"--{what}", precious)
            self.assert_refused(result, 1, f"is not the {what} of an earlier run")
            self.assertEqual(precious.read_text(), "not of ours")
            result = self.convert(source, f"--{what}", "nowhere/log")
            self.assert_refused(result, 2, f"cannot write the {what} to `nowhere/log`")
        result = self.convert(source, "--timeline", "/dev/full")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(
            result.stderr, r"^warning: not all could be written to `/dev/full`: no space left on device\n$"
        )

    def test_events_that_standard_output_does_not_take(self) -> None:
        """One message gives the reason, and the conversion goes on."""
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAMS / "ucprun", "convert", self.checkpoint(CASE), self.out, "--to",
                                     "universal", "--events", "-"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=60, check=False)  # fmt: skip
        self.assertEqual(
            (result.returncode, result.stderr),
            (0, "warning: not all could be written to `-`: no space left on device\n"),
        )
        self.assertTrue((self.out / "latest_universal").is_file())

    def test_bandwidth_is_bounded(self) -> None:
        """Reading and writing take their time; a bandwidth that makes no sense is refused."""
        source = self.checkpoint(CASE)
        report = json.loads(self.convert(source, "--json").stdout)
        moved = sum(report[key] for key in ("bytes_copied", "bytes_compared", "bytes_checksummed", "bytes_written"))
        limit = moved // 2
        begin = time.monotonic()
        result = self.run_program(
            "ucprun", "convert", source, "slow", "--to", "universal", "--threads", "4", "--max-bandwidth", limit
        )
        seconds = time.monotonic() - begin
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertGreater(seconds, 1.8)
        shutil.rmtree(self.out)
        for size in ("0", "fast", "10KB", "-1MB"):
            self.assert_refused(
                self.convert_to("x", source, f"--max-bandwidth={size}"), 1, "takes the bytes of a second"
            )

    def convert_to(self, out: str, source: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Converts to a folder of this name."""
        return self.run_program("ucprun", "convert", source, out, "--to", "universal", *arguments)

    def on_terminal(self, columns: int, *command: object) -> str:
        """The output to standard error on a terminal of this width."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen(
            [str(PROGRAMS / "ucprun"), *map(str, command)], cwd=self.folder, stderr=theirs, stdout=subprocess.DEVNULL
        ) as process:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    part = os.read(ours, 4096)
                except OSError:  # How Linux says that nobody writes any more.
                    break
                if not part:
                    break
                shown += part
        os.close(ours)
        self.assertEqual(process.returncode, 0, shown)
        return shown.decode()

    def test_progress_on_a_terminal(self) -> None:
        """A line that is written over again, no wider than the terminal, and cleared at the end."""
        source = self.checkpoint(CASE)
        for columns in (80, 30):
            shown = self.on_terminal(
                columns,
                "convert",
                source,
                f"out{columns}",
                "--to",
                "universal",
                "--threads",
                "1",
                "--max-bandwidth",
                "1MB",
            )
            lines = shown.split("\r")
            self.assertGreater(len(lines), 3, shown)
            self.assertEqual(lines[-1], "\x1b[K")
            for line in lines[1:-1]:
                self.assertTrue(line.endswith("\x1b[K"), line)
                self.assertLess(len(line) - len("\x1b[K"), columns)
                self.assertIn(" %", line)
        self.assertIn(" left", shown)


if __name__ == "__main__":
    unittest.main()
