"""Damaged, hostile and contradicting checkpoints: one sentence, exit code 2, no output, and nothing is executed."""

from __future__ import annotations

import struct
import unittest
import zipfile
from collections.abc import Callable
from pathlib import Path

from programs import GPT_SPEC, ProgramTest


def rewrite(path: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Writes a `.pt` file again, each record changed, with checksums that fit."""
    with zipfile.ZipFile(path) as archive:
        records = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records:
            archive.writestr(name, change(name, content))


def text(value: str) -> bytes:
    """The pickle of a string, protocol 2."""
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def flip(path: Path, offset: int) -> None:
    """Changes one byte."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x40
    path.write_bytes(content)


def largest_record(path: Path) -> int:
    """Where the data of the largest record lies."""
    with zipfile.ZipFile(path) as archive:
        info = max(archive.infolist(), key=lambda entry: entry.file_size)
    header = path.read_bytes()[info.header_offset : info.header_offset + 30]
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    return info.header_offset + 30 + name_bytes + extra_bytes


class Damage(ProgramTest):
    """One case each."""

    def setUp(self) -> None:
        """Most cases damage the same checkpoint."""
        super().setUp()
        self.source = self.checkpoint("zero1_dp2")
        self.tag = self.source / "global_step4"
        self.model = self.tag / "mp_rank_00_model_states.pt"
        self.optimizer = self.tag / "zero_pp_rank_1_mp_rank_00_optim_states.pt"

    def test_the_copy_is_sound(self) -> None:
        """Else nothing below would show anything."""
        self.assert_done(self.convert(self.source))

    def test_a_pickle_that_runs_a_command_is_inert(self) -> None:
        """It is left out and named, and never called."""
        trace = self.folder / "trace"
        call = text("client") + b"cposix\nsystem\n" + text(f"touch {trace}") + b"\x85Rs."

        def add_call(name: str, content: bytes) -> bytes:
            return content[:-1] + call if name.endswith("/data.pkl") else content

        rewrite(self.model, add_call)
        result = self.convert(self.source)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"is left out: loading it would run `posix.system('touch {trace}')`", result.stderr)
        self.assertFalse(trace.exists())
        self.assertEqual([path for path in self.out.rglob("*.pt") if b"posix" in path.read_bytes()], [])

    def test_an_entry_that_nothing_knows_is_named(self) -> None:
        """Of an optimizer file it would vanish; of a model file it is the client's, and carried."""

        def add_entry(name: str, content: bytes) -> bytes:
            return content[:-1] + text("my_extra") + b"K\x01s." if name.endswith("/data.pkl") else content

        rewrite(self.optimizer, add_entry)
        result = self.convert(self.source)
        self.assertEqual(result.returncode, 0, result.stderr)
        note = f"note: the entry 'my_extra' of optimizer files is not carried, first in `{self.optimizer.name}`"
        self.assertIn(note, result.stderr)

    def test_truncated_files(self) -> None:
        """At many lengths, of both kinds of file."""
        for path in (self.model, self.optimizer):
            whole = path.read_bytes()
            for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
                with self.subTest(path=path.name, length=length):
                    path.write_bytes(whole[:length])
                    self.assert_refused(self.convert(self.source), 2, path.name)
            path.write_bytes(whole)

    def test_a_flipped_bit_of_the_data(self) -> None:
        """The record's checksum finds it."""
        flip(self.optimizer, largest_record(self.optimizer) + 8)
        self.assert_refused(self.convert(self.source), 2, self.optimizer.name)

    def test_a_storage_shorter_than_its_tensor(self) -> None:
        """Sizes in a pickle are not believed."""
        rewrite(
            self.optimizer, lambda name, content: content[:-4] if "/data/" in name and len(content) > 64 else content
        )
        self.assert_refused(self.convert(self.source), 2, self.optimizer.name)

    def test_a_record_that_stands_twice(self) -> None:
        """Which one would be meant?"""
        with zipfile.ZipFile(self.optimizer) as archive:
            name = archive.namelist()[0]
            content = archive.read(name)
        with self.assertWarns(UserWarning), zipfile.ZipFile(self.optimizer, "a", zipfile.ZIP_STORED) as archive:
            archive.writestr(name, content)
        self.assert_refused(self.convert(self.source), 2, self.optimizer.name)

    def test_a_missing_rank(self) -> None:
        """The file that should be there is named."""
        self.optimizer.unlink()
        self.assert_refused(self.convert(self.source), 2, self.optimizer.name)

    def test_a_folder_in_place_of_a_file(self) -> None:
        """It is not taken for a file that is missing."""
        for file in (self.optimizer, self.model):
            content = file.read_bytes()
            file.unlink()
            file.mkdir()
            self.assert_refused(self.convert(self.source), 2, f"`{file.name}` is a folder, where DeepSpeed has a file")
            file.rmdir()
            file.write_bytes(content)

    def test_a_rank_of_another_run(self) -> None:
        """Masters that do not belong to the weights are found by the weights."""
        other = self.tag / "zero_pp_rank_0_mp_rank_00_optim_states.pt"
        self.optimizer.write_bytes(other.read_bytes())
        self.assert_refused(self.convert(self.source), 2, "not the rounding of their masters")

    def test_latest_leads_nowhere(self) -> None:
        """It is followed inside the folder only."""
        (self.source / "latest").write_text("global_step5")
        self.assert_refused(self.convert(self.source), 2, "global_step5")
        (self.source / "latest").write_text("../zero1_dp2/global_step4")
        self.assert_refused(self.convert(self.source), 2, "latest")

    def test_names_do_not_command_a_terminal(self) -> None:
        """Escape sequences are shown, not obeyed."""
        (self.source / "latest").write_bytes(b"a\x1b[31mb")
        result = self.convert(self.source)
        self.assertNotIn("\x1b", result.stderr)
        self.assertIn("\\x1b", result.stderr)

    def test_copies_that_drifted(self) -> None:
        """Both files, both values, and how to declare it."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        spec = self.folder / "drift.ucp"
        spec.write_text(GPT_SPEC.read_text().replace(", unused pp.last", ", pp.last"))
        result = self.convert(source, "--spec", spec)
        self.assert_refused(result, 2, "position_embeddings.weight", "two values", "mp_rank_00", "mp_rank_02", "unused")
        self.assert_done(self.convert(source, "--spec", spec, "--replicas", "trust"))

    def test_damaged_plans(self) -> None:
        """A plan is not believed either."""
        plan = self.folder / "a.plan"
        self.run_program("ucpc", "plan", "--from", self.source, "--to", "universal", "-o", plan)
        whole = plan.read_bytes()
        for offset in (0, 7, 9, 20, 100, len(whole) // 2, len(whole) - 1):
            with self.subTest(offset=offset):
                plan.write_bytes(whole)
                flip(plan, offset)
                result = self.run_program("ucprun", "run", plan, self.out, "--from", self.source)
                self.assert_refused(result, 2, "plan")
        plan.write_bytes(whole[:-1])
        self.assert_refused(self.run_program("ucprun", "run", plan, self.out, "--from", self.source), 2, "plan")

    def test_a_plan_of_another_checkpoint(self) -> None:
        """Sizes and headers must be those that the plan was made from."""
        plan = self.folder / "a.plan"
        self.run_program("ucpc", "plan", "--from", self.source, "--to", "universal", "-o", plan)
        other = self.checkpoint("zero2_dp2")
        result = self.run_program("ucprun", "run", plan, self.out, "--from", other)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
