"""Comparing and showing under a launcher: `verify` shares its work, and all else is done once; each reports once."""

from __future__ import annotations

import subprocess
import unittest

from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT

from programs import PROGRAMS, ProgramTest


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class RanksThatVerify(ProgramTest):
    """On three ranks it is what it is on one: output, order and exit code."""

    def on(self, ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
        """One rank is started without a launcher."""
        launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        return subprocess.run(
            [*launcher, str(PROGRAMS / "ucprun"), *map(str, words)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )

    def assert_same(self, *words: object, code: int = 0) -> str:
        """Three ranks find what one finds; returns their output."""
        alone, together = self.on(1, *words), self.on(3, *words)
        self.assertEqual((alone.returncode, together.returncode), (code, code), together.stderr)
        self.assertEqual(together.stdout, alone.stdout)
        own = [line for line in together.stderr.splitlines() if line.startswith("ucprun") or ": " in line[:12]]
        self.assertEqual(own, alone.stderr.splitlines())
        return together.stdout + together.stderr

    def test_a_conversion(self) -> None:
        """Its files, its digests, another form of it; then damage in files of several ranks."""
        source = self.checkpoint("zero2_dp4")
        self.assertEqual(self.convert(source).returncode, 0)
        self.assertIn("bit for bit the same", self.assert_same("verify", self.out, "--same", source))
        self.assert_same("verify", self.out, "--json")
        files = sorted(self.out.rglob("*.pt"))
        for path in files[:: max(1, len(files) // 5)]:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(bytes(data))
        self.assertGreaterEqual(self.assert_same("verify", self.out, code=3).count("is not what was written"), 5)

    def test_synthetic_elements(self) -> None:
        """Wrong ones are listed in the order of the tensors, whichever rank found them."""
        made = self.on(
            1,
            "synth",
            "gpt2",
            "made",
            "--to",
            "universal",
            "--set",
            "layers=2",
            "--set",
            "hidden=16",
            "--set",
            "heads=2",
            "--set",
            "vocab=32",
            "--set",
            "seq=8",
            "--set",
            "ffn=64",
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("every element is what", self.assert_same("verify", "made", "--synth"))
        for path in sorted((self.folder / "made").rglob("fp32.pt"))[::5]:
            data = bytearray(path.read_bytes())
            at = data.find(b"PK\x03\x04", len(data) // 3)
            data[(len(data) // 2 if at < 0 else at - 64) & ~3] ^= 1
            path.write_bytes(bytes(data))
        found = self.on(3, "verify", "made", "--synth", "--ignore-crc")
        self.assertEqual(found.returncode, 3, found.stderr)
        self.assert_same("verify", "made", "--synth", "--ignore-crc", code=3)

    def test_a_tensor_of_which_each_rank_has_a_part(self) -> None:
        """Its wrong elements are counted over all ranks, and the first of them is shown."""
        sizes = {"layers": 1, "hidden": 16, "heads": 2, "vocab": 400_000, "seq": 8, "ffn": 16}
        settings = [word for name, size in sizes.items() for word in ("--set", f"{name}={size}")]
        made = self.on(1, "synth", "gpt2", "made", "--to", "universal", *settings)
        self.assertEqual(made.returncode, 0, made.stderr)
        path = max((self.folder / "made").rglob("fp32.pt"), key=lambda path: path.stat().st_size)
        data = bytearray(path.read_bytes())
        self.assertGreater(len(data), 24 << 20)
        for tenth in (1, 5, 9):
            data[(len(data) * tenth // 10) & ~3] ^= 1
        path.write_bytes(bytes(data))
        found = self.assert_same("verify", "made", "--synth", "--ignore-crc", code=3)
        self.assertIn("; 3 of 6,400,000 elements wrong", found)

    def test_what_one_rank_does_is_said_once(self) -> None:
        """Also an error."""
        source = self.checkpoint("zero1_dp2")
        self.assertEqual(self.convert(source).returncode, 0)
        self.assert_same("inspect", source)
        self.assert_same("diff", source, self.out)
        self.assert_same("inspect", "nothing-here", code=2)
        wrong = self.on(3, "verify", "nothing-here")
        self.assertEqual(wrong.stderr.count("ucprun: error: "), 1, wrong.stderr)


if __name__ == "__main__":
    unittest.main()
