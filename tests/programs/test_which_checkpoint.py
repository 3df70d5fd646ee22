"""The choice of a checkpoint in a folder, with an earlier conversion inside the folder of the training run."""

from __future__ import annotations

import json
import shutil
import unittest
from pathlib import Path

from programs import ProgramTest


class WhichCheckpoint(ProgramTest):
    """A run with two tags."""

    def run_with_two_tags(self) -> Path:
        """Tags `global_step3` and `global_step4`, and the older one's universal form in `universal`; no `latest`."""
        root = self.checkpoint("zero2_dp2")
        shutil.copytree(root / "global_step4", root / "global_step3")
        (root / "latest").write_text("global_step3")
        result = self.run_program("ucprun", "convert", root, root / "universal", "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        (root / "latest").unlink()
        return root

    def test_the_earlier_conversion_is_not_taken_instead(self) -> None:
        root = self.run_with_two_tags()
        for command in (
            ["convert", root, self.out, "--to", "deepspeed:dp=6,zero=1"],
            ["inspect", root],
            ["verify", root],
        ):
            result = self.run_program("ucprun", *command)
            self.assert_refused(result, 2, "global_step3, global_step4 (deepspeed), universal (universal)")

    def test_a_latest_that_leads_nowhere_is_not_passed_over(self) -> None:
        root = self.run_with_two_tags()
        (root / "latest").write_text("global_step9")
        result = self.run_program("ucprun", "convert", root, self.out, "--to", "deepspeed:dp=6,zero=1")
        self.assert_refused(result, 2, "names `global_step9`, and there is no folder", "global_step4 (deepspeed)")

    def test_a_link_out_of_the_folder_is_named(self) -> None:
        root = self.checkpoint("zero2_dp2")
        elsewhere = self.folder / "elsewhere"
        shutil.move(root / "global_step4", elsewhere)
        (root / "global_step4").symlink_to(elsewhere)
        result = self.run_program("ucprun", "convert", root, self.out, "--to", "universal", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"`{root}/global_step4` is a link to `{elsewhere}`, outside of `{root}`", result.stdout)
        self.assertIn("remarks", json.loads(result.stdout))


if __name__ == "__main__":
    unittest.main()
