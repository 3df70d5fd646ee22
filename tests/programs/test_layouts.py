"""How checkpoints lie in folders: what may be named, what lies beside and inside, and paths of any characters."""

from __future__ import annotations

import shutil
import subprocess
import unittest
from pathlib import Path

from programs import ProgramTest, files_of

STRANGE = "out+[1] (a|b)*?{x}$^ 'é'"


class Layouts(ProgramTest):
    """One sound checkpoint."""

    def setUp(self) -> None:
        """Its conversion from the root is what all others must give."""
        super().setUp()
        self.source = self.checkpoint("zero1_dp2")
        self.tag = self.source / "global_step4"
        self.expected = self.converted(self.source)

    def converted(self, path: Path, out: str = "of-the-root") -> dict[str, bytes]:
        """All files that a conversion wrote, by their paths in the target."""
        result = self.to(path, out)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return files_of(self.folder / out)

    def to(self, path: Path, out: str) -> subprocess.CompletedProcess[str]:
        """Converts to a folder of another name."""
        return self.run_program("ucprun", "convert", path, self.folder / out, "--to", "universal")

    def test_the_root_the_tag_or_any_file(self) -> None:
        """All mean the same."""
        paths = [self.tag, self.source / "latest", *self.tag.iterdir(), Path("zero1_dp2"), Path("zero1_dp2/")]
        self.assertGreater(len(paths), 6)
        for number, path in enumerate(paths):
            with self.subTest(path=path):
                self.assertEqual(self.converted(path, f"same{number}"), self.expected)

    def test_latest_with_blanks_around_the_tag(self) -> None:
        """As editors and `echo` leave them."""
        (self.source / "latest").write_text(" global_step4\r\n")
        self.assertEqual(self.converted(self.source, "same"), self.expected)

    def test_latest_that_says_nothing_useful(self) -> None:
        """Empty, outside, absolute, or a folder without a checkpoint."""
        (self.source / "other").mkdir()
        for text in ("", "\n", "..", "../zero1_dp2/global_step4", str(self.tag), "other", "a\0b"):
            with self.subTest(text=text):
                (self.source / "latest").write_text(text)
                self.assert_refused(self.convert(self.source), 2, "latest")

    def test_paths_of_any_characters(self) -> None:
        """Names that a glob or a regular expression would misread."""
        self.assertEqual(self.converted(self.source, STRANGE), self.expected)
        moved = self.folder / f"in {STRANGE}"
        shutil.move(self.source, moved)
        self.assertEqual(self.converted(moved, "from" + STRANGE), self.expected)

    def test_copies_inside_the_checkpoint(self) -> None:
        """They are not read, and named."""
        shutil.copytree(self.tag, self.tag / "global_step4")
        (self.tag / "notes.pt").write_text("no archive")
        result = self.to(self.source, "same")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.folder / "same"), self.expected)
        self.assertIn("the folder `global_step4` inside the checkpoint is not a part of it", result.stderr)
        self.assertIn("`notes.pt` is not a file of this format and is not read", result.stderr)

    def test_folders_beside_the_tag(self) -> None:
        """Those of other programs are passed over; a newer tag without all its files is named."""
        for name in ("logs", "runs", "wandb"):
            (self.source / name).mkdir()
        self.assertEqual(self.converted(self.source, "same"), self.expected)
        newer = self.source / "global_step8"
        newer.mkdir()
        shutil.copy(self.tag / "mp_rank_00_model_states.pt", newer)
        result = self.to(self.source, "again")
        self.assertEqual(files_of(self.folder / "again"), self.expected)
        self.assertIn(
            "note: the tag `global_step8` beside it is half-written: it has 1 of 3 files, without "
            "`zero_pp_rank_0_mp_rank_00_optim_states.pt`",
            result.stderr,
        )

    def test_a_tag_that_lacks_files(self) -> None:
        """The one that is read: what is missing, and which tag has it all."""
        newer = self.source / "global_step8"
        shutil.copytree(self.tag, newer)
        (newer / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
        (self.source / "latest").write_text("global_step8")
        self.assert_refused(
            self.convert(self.source),
            2,
            "zero_pp_rank_1_mp_rank_00_optim_states.pt",
            "the tag `global_step4` beside it has 1 file more",
        )


if __name__ == "__main__":
    unittest.main()
