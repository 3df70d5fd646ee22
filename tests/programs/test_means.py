"""Through the page cache or past it: the same bytes, and a report of what was chosen and why."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import unittest
from pathlib import Path

from programs import GPT_SPEC, PROGRAMS, ProgramTest, all_files

SIZES = {"layers": 2, "hidden": 192, "heads": 4, "ffn": 768, "vocab": 2000, "grain": 16, "seq": 8}
TARGETS = ("universal", "safetensors:states=all", "safetensors:dtype=bf16", "deepspeed:tp=1,pp=1,dp=3,zero=1")


class Means(ProgramTest):
    """Tensors of a few hundred kilobytes, which are large enough to go past the page cache."""

    def synthetic(self, sizes: dict[str, int], to: str = "deepspeed:tp=2,pp=1,dp=2,zero=1") -> Path:
        """A checkpoint of a GPT."""
        source = self.folder / "source"
        self.words = [f"--set={name}={value}" for name, value in sizes.items()]
        made = self.run_program("ucprun", "synth", GPT_SPEC, source, "--to", to, "--io", "direct", *self.words)
        self.assertEqual(made.returncode, 0, made.stderr)
        return source

    def run_by(self, way: str, source: Path, *more: object) -> subprocess.CompletedProcess[str]:
        """A conversion to a folder that is called as the way is."""
        return self.run_program(
            "ucprun", "convert", source, self.folder / way, "--io", way, "--spec", GPT_SPEC, *self.words, *more
        )

    def test_the_same_bytes(self) -> None:
        """Whatever memory there is, and so however large the pieces are."""
        source = self.synthetic(SIZES)
        self.assertEqual(self.run_program("ucprun", "verify", source, "--synth", "--spec", GPT_SPEC,
                                          *self.words).returncode, 0)  # fmt: skip
        for target in TARGETS:
            for memory in ("1GiB", "30MiB"):
                for way in ("buffered", "direct"):
                    result = self.run_by(way, source, "--to", target, "--memory", memory, "--force", "--json")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    report = json.loads(result.stdout)["io"]
                    self.assertEqual(report, {part: {"means": way, "reason": "so --io says"}
                                              for part in ("reading", "writing")})  # fmt: skip
                self.assertEqual(all_files(self.folder / "direct"), all_files(self.folder / "buffered"), target)

    def test_loads_get_the_same_bytes(self) -> None:
        """Every element is compared with the source by another way; of the job's ranks the last one's are loaded."""
        source = self.synthetic(SIZES)
        for target in TARGETS:
            rank = ["--rank", "2"] if "dp=3" in target else []
            for memory in ("1GiB", "30MiB"):
                result = self.run_program("ucprun", "load", source, "--to", target, *rank, "--memory", memory, "--io",
                                          "direct", "--compare", "--json", "--spec", GPT_SPEC, *self.words)  # fmt: skip
                self.assertEqual(result.returncode, 0, result.stderr)
                report = json.loads(result.stdout)
                self.assertEqual(report["io"], {"reading": {"means": "direct", "reason": "so --io says"}})
                self.assertGreater(report["ranks"][0]["elements_compared"], 0)
                self.assertEqual(report["ranks"][0]["elements_that_differ"], 0)
        plain = self.run_program("ucprun", "load", source, "--to", "universal", "--io", "direct", "--spec", GPT_SPEC,
                                 *self.words)  # fmt: skip
        self.assertIn("large files were read past the page cache: so --io says\n", plain.stdout)

    def test_what_is_said(self) -> None:
        """With --verbose, and in the report."""
        source = self.synthetic(SIZES)
        result = self.run_by("direct", source, "--to", "universal", "--verbose")
        for what in ("read", "written"):
            self.assertIn(f"large files are {what} past the page cache: so --io says\n", result.stderr)
        report = json.loads(self.run_by("auto", source, "--to", "universal", "--json").stdout)
        self.assertRegex(report["io"]["reading"]["reason"], r"^[\d.]+ MB are too few for a trial to pay$")
        self.assertIn(
            f"large files are read through the page cache: {report['io']['reading']['reason']}", report["choices"]
        )
        report = json.loads(self.run_by("auto", source, "--to", "universal", "--json", "--force", "--max-bandwidth",
                                        "1GB").stdout)  # fmt: skip
        self.assertEqual(report["io"]["writing"]["reason"], "a trial would not keep to --max-bandwidth")
        result = self.run_by("sideways", source, "--to", "universal")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--io", result.stderr)

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "needs files in memory")
    def test_in_memory_there_is_nothing_to_go_past(self) -> None:
        """However large they are."""
        self.parent_folder = "/dev/shm"
        super().setUp()
        source = self.synthetic(SIZES | {"layers": 9, "hidden": 640, "ffn": 2560})
        result = self.run_by("auto", source, "--to", "universal", "--json", "--threads", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        for part in json.loads(result.stdout)["io"].values():
            self.assertEqual(part, {"means": "buffered", "reason": "they are in memory"})

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "needs files in memory")
    def test_what_is_left_counts(self) -> None:
        """A run that goes on has too little left for a trial, though the whole is large enough for one."""
        self.parent_folder = "/dev/shm"
        super().setUp()
        source = self.synthetic(SIZES | {"layers": 6, "hidden": 640, "ffn": 2560})
        command = [str(PROGRAMS / "ucprun"), "convert", str(source), str(self.folder / "auto"), "--to", "universal",
                   "--spec", str(GPT_SPEC), *self.words, "--journal-every", "0", "--max-bandwidth", "300MB",
                   "--events", "-"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            for event in map(json.loads, run.stdout or ()):
                if event["event"] == "progress" and event["bytes_done"] > event["bytes_total"] / 2:
                    run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130)
        result = self.run_by("auto", source, "--to", "universal", "--json", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertGreater(report["bytes_done_before"], 0)
        for part in report["io"].values():
            self.assertRegex(part["reason"], r"^[\d.]+ MB are too few for a trial to pay$")

    def test_few_open_files(self) -> None:
        """Each is open twice: it works with few, and with fewer a message names the limit."""
        source = self.synthetic(SIZES, "deepspeed:dp=24,zero=1")
        for limit in (20, 30, 44, 60):
            command = [
                str(PROGRAMS / "ucprun"),
                "convert",
                str(source),
                str(self.folder / str(limit)),
                "--to",
                "universal",
                "--io",
                "direct",
                "--threads",
                "2",
                "--spec",
                str(GPT_SPEC),
                *self.words,
            ]
            result = subprocess.run(
                command, capture_output=True, text=True, check=False,
                preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))  # fmt: skip
            if limit == 20:
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("20 files open at once", result.stderr)
            elif limit == 30:
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("past the page cache every file is opened twice, and this process may have 30 open at "
                              "once (`ulimit -n`), too few for 2 threads so; raise the limit, lower --threads, or pass "
                              "--io buffered\n", result.stderr)  # fmt: skip
            else:
                self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(all_files(self.folder / "44"), all_files(self.folder / "60"))


if __name__ == "__main__":
    unittest.main()
