"""Every kind of file, damaged anywhere: one sentence and nothing left behind, or the same result as without the damage.

Damage is random; a failure names its seed, and UCP_TEST_SEED=that repeats it first. UCP_TEST_SECONDS asks for more.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import struct
import subprocess
import time
import unittest
import zipfile
from pathlib import Path

from test_damage import rewrite

from programs import PROGRAMS, ProgramTest, files_of

SEED = int(os.environ.get("UCP_TEST_SEED", "1"))
SECONDS = 2 * float(os.environ.get("UCP_TEST_SECONDS", "2"))  # For each kind of source.

# The source: a checkpoint that the engine wrote, or one that we made of it.
SOURCES = {
    "zero2_dp2": None,
    "zero3_frozen_dp4": None,
    "zero0_fused_fp16": None,
    "elastic_zero2": None,
    "moe_ep2_dp4": None,
    "pipeline_pp2": None,
    "frozen_buffers_zero2": "deepspeed:dp=4,zero=1",
    "bf16_optimizer_dp2": "deepspeed:dp=2,zero=1,dtype=bf16,optimizer=bf16",
    "zero1_dp2": "universal",
    "zero1_dp4": "safetensors:states=all,max_shard=20KB",
}

MEMORY_BYTES = 64 << 20  # Beyond what the sound conversion takes, for files of less than a megabyte.


def flip(data: bytes, at: int, choose: random.Random) -> bytes:
    """One bit of a byte."""
    return data[:at] + bytes([data[at] ^ 1 << choose.randrange(8)]) + data[at + 1 :]


def flip_one(data: bytes, choose: random.Random) -> bytes:
    """One bit anywhere."""
    return flip(data, choose.randrange(len(data)), choose)


def header_places(data: bytes) -> list[range]:
    """Where a file says what it holds: an archive's headers, directory and pickle, or a safetensors header."""
    if data[:2] != b"PK":
        length = struct.unpack_from("<Q", data)[0] if len(data) > 8 else 0
        return [range(8), range(8, min(len(data), 8 + length))]
    places, at = [], 0
    for signature, length in ((b"PK\x03\x04", 64), (b"PK\x01\x02", 60), (b"PK\x05\x06", 22), (b"PK\x06\x06", 56)):
        at = data.find(signature)
        while at != -1:
            places.append(range(at, min(at + length, len(data))))
            at = data.find(signature, at + 4)
    pickle = data.find(b"\x80\x02")
    return [*places, range(pickle, min(len(data), pickle + 2000))]


def damage(path: Path, choose: random.Random) -> bool:
    """Damages a file and says whether what it holds may now be something else, by its own checksums."""
    data = path.read_bytes()
    kind = choose.choice(["header", "header", "header", "byte", "cut", "zeros", "swap", "pickle"])
    if kind == "header" and data:
        path.write_bytes(flip(data, choose.choice(choose.choice(header_places(data))), choose))
    elif kind == "byte" and data:
        path.write_bytes(flip_one(data, choose))
    elif kind == "cut":
        path.write_bytes(data[: choose.randrange(len(data) + 1)])
    elif kind == "zeros" and data:
        at = choose.randrange(len(data))
        path.write_bytes(data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :])
    elif kind == "swap":
        other = choose.choice(sorted(file for file in path.parent.iterdir() if file.is_file()))
        path.write_bytes(other.read_bytes())
        return True
    elif zipfile.is_zipfile(path):
        rewrite(path, lambda name, held: held if "data.pkl" not in name else flip_one(held, choose))
        return True
    return path.suffix != ".pt"  # Nothing else has checksums.


class Corruption(ProgramTest):
    """Of each kind of source."""

    def run_measured(self, *arguments: object) -> tuple[subprocess.CompletedProcess[str], int]:
        """The result, and the most bytes that the program held."""
        process = subprocess.Popen(
            [PROGRAMS / "ucprun", *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)),  # A hang dies of a signal.
        )
        with process.stderr as stream:
            errors = stream.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(process.args, process.returncode, "", errors), usage.ru_maxrss * 1024

    def source(self, case: str, form: str | None) -> Path:
        """The damage."""
        source = self.checkpoint(case)
        if form is None:
            return source
        made = self.folder / f"{case}-made"
        result = self.run_program("ucprun", "convert", source, made, "--to", form)
        self.assertEqual(result.returncode, 0, result.stderr)
        return made

    def test_damage_anywhere(self) -> None:
        """Refused, or equal."""
        print(f"seed {SEED}")
        for case, form in SOURCES.items():
            with self.subTest(case, form=form):
                self.damage_all(self.source(case, form), "safetensors" if "safetensors" in str(form) else "universal")

    def damage_all(self, source: Path, to: str) -> None:
        """One damage after the other, each mended before the next."""
        arguments = ("convert", source, self.out, "--to", to)
        result, usual = self.run_measured(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        sound = files_of(self.out)
        shutil.rmtree(self.out)
        files = sorted(path for path in source.rglob("*") if path.is_file() and path.stat().st_size)
        refused, began, seed = 0, time.monotonic(), SEED
        while seed < SEED + 12 or time.monotonic() - began < SECONDS:
            choose = random.Random(f"{source.name} {seed}")
            path = choose.choice(files)
            whole = path.read_bytes()
            can_differ = damage(path, choose)
            result, held = self.run_measured(*arguments)
            told = f"seed {seed}, `{path}`: {result.stderr}"
            self.assertIn(result.returncode, (0, 2), told)
            self.assertLess(held, usual + MEMORY_BYTES, told)
            if result.returncode == 2:
                refused += 1
                self.assert_refused(result, 2)
            else:
                self.assertTrue(can_differ or files_of(self.out) == sound, told)
            path.write_bytes(whole)
            shutil.rmtree(self.out, ignore_errors=True)
            seed += 1
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
