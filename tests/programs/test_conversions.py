"""Conversions that go well, and requests that make no sense."""

from __future__ import annotations

import json
import resource
import shutil
import unittest

from programs import GPT_SPEC, MANIFEST, ProgramTest, all_files, files_of


class Conversions(ProgramTest):
    """Conversions that work."""

    def test_threads_do_not_change_a_byte(self) -> None:
        """G4: the output depends on the source and the plan alone."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        for threads in (1, 2, 7):
            out = self.folder / f"out{threads}"
            result = self.run_program(
                "ucprun",
                "convert",
                source,
                out,
                "--to",
                "universal",
                "--spec",
                GPT_SPEC,
                "--threads",
                threads,
                "--memory",
                "64MiB",
            )
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.folder / "out1"), files_of(self.folder / "out2"))
        self.assertEqual(files_of(self.folder / "out1"), files_of(self.folder / "out7"))
        manifests = {(self.folder / f"out{threads}" / MANIFEST).read_bytes() for threads in (1, 2, 7)}
        self.assertEqual(len(manifests), 1)

    def test_a_plan_file_does_what_convert_does(self) -> None:
        """The same inputs give the same plan, and the plan the same bytes."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        for name in ("a.plan", "b.plan"):
            result = self.run_program("ucpc", "plan", GPT_SPEC, "--from", source, "--to", "universal", "-o", name)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "a.plan").read_bytes(), (self.folder / "b.plan").read_bytes())
        self.assert_done(self.convert(source, "--spec", GPT_SPEC))
        result = self.run_program("ucprun", "run", "a.plan", "planned", "--from", source)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.out), files_of(self.folder / "planned"))
        self.assertEqual((self.out / MANIFEST).read_bytes(), (self.folder / "planned" / MANIFEST).read_bytes())

    def test_universal_to_universal_is_the_identity(self) -> None:
        """We read the files that we write."""
        result = self.convert(self.checkpoint("frozen_buffers_zero2"))
        self.assertEqual(result.returncode, 0, result.stderr)
        again = self.folder / "again"
        result = self.run_program("ucprun", "convert", self.out, again, "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.out), files_of(again))

    def test_what_the_engine_will_not_load_is_named(self) -> None:
        """Frozen parameters and buffers, with the way to restore them."""
        result = self.convert(self.checkpoint("frozen_buffers_zero2"))
        self.assertIn("restore_module() of examples/restore_module.py for `calls`, `mask`,", result.stderr)
        self.assertIn("`stem.weight`", result.stderr)

    def test_json_reports_are_json(self) -> None:
        """Of every command that has them, errors included."""
        source = self.checkpoint("zero1_dp2")
        shown = json.loads(self.run_program("ucprun", "inspect", source, "--json").stdout)
        self.assertEqual((shown["mesh"]["dp"], shown["step"]), (2, 4))
        self.assertEqual(json.loads(self.convert(source, "--json").stdout)["tensors"], 17)
        self.assertEqual(json.loads(self.convert(source, "--json").stdout)["error"]["code"], "usage")

    def test_a_dry_run_writes_nothing(self) -> None:
        """It says what it would do."""
        result = self.convert(self.checkpoint("zero1_dp2"), "--dry-run")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("copy", result.stdout)
        self.assert_nothing_left()


class Requests(ProgramTest):
    """Commands that make no sense."""

    def test_an_existing_destination_is_refused(self) -> None:
        """And --force replaces it only if it is a checkpoint."""
        source = self.checkpoint("zero1_dp2")
        self.out.mkdir()
        (self.out / "thesis.txt").write_text("keep me")
        self.assertEqual(self.convert(source).returncode, 1)
        self.assertEqual(self.convert(source, "--force").returncode, 1)
        self.assertEqual((self.out / "thesis.txt").read_text(), "keep me")
        (self.out / "thesis.txt").unlink()
        self.assert_done(self.convert(source, "--force"))
        self.assert_done(self.convert(source, "--force"))

    def test_what_stands_beside_a_checkpoint_is_not_lost(self) -> None:
        """--force replaces the folder as a whole: another tag, a script or notes in it keep it from that."""
        source = self.checkpoint("zero1_dp2")
        ours, roots, weights = self.folder / "ours", self.folder / "roots", self.folder / "weights"
        self.assertEqual(self.run_program("ucprun", "convert", source, ours, "--to", "universal").returncode, 0)
        shutil.copytree(source, roots)
        (roots / "zero_to_fp32.py").touch()  # DeepSpeed's own.
        self.assertEqual(self.run_program("ucprun", "convert", source, weights, "--to", "safetensors").returncode, 0)
        (weights / "ucp_manifest.json").unlink()
        (weights / "config.json").write_text("{}")
        (roots / "model.safetensors").touch()  # As a trainer has it.
        for place, to in ((ours, "universal"), (roots, "universal"), (weights, "safetensors")):
            tag = next(iter(sorted(path.name for path in place.glob("global_step*"))), "")
            for foreign in ("global_step99/more", ".git/more", "train.py", "precious.pt", f"{tag or 'more'}/notes.pt",
                            "zero_to_torch.py/more"):  # fmt: skip
                made = place / foreign
                made.parent.mkdir(exist_ok=True)
                made.touch()
                before = all_files(place)
                result = self.run_program("ucprun", "convert", source, place, "--to", to, "--force")
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn(
                    f"`{place}` holds `{foreign}`, which is not a part of the checkpoint that --force would "
                    "replace; move it elsewhere, or name another folder\n",
                    result.stderr,
                )
                self.assertEqual(all_files(place), before)
                again = self.run_program("ucprun", "convert", source, place, "--to", to, "--force", "--resume")
                self.assertEqual(again.returncode, 0 if place == ours else 1, again.stderr)  # It is complete.
                self.assertEqual(all_files(place), before)
                made.unlink()
                if made.parent not in (place, place / tag):
                    made.parent.rmdir()
            self.assertEqual(self.run_program("ucprun", "convert", source, place, "--to", to, "--force").returncode, 0)

    def test_a_manifest_does_not_make_a_file_part_of_a_checkpoint(self) -> None:
        """It is not signed: only files that some format would write are replaced with it."""
        source = self.checkpoint("zero1_dp2")
        self.assert_done(self.convert(source))
        (self.out / "thesis.tex").write_text("years")
        manifest = self.out / "ucp_manifest.json"
        listed = '"files": [\n    {"path": "thesis.tex", "bytes": 5, "digest": "0"},'
        manifest.write_text(manifest.read_text().replace('"files": [', listed, 1))
        result = self.convert(source, "--force")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"`{self.out}` holds `thesis.tex`, which is not a part of the checkpoint", result.stderr)
        self.assertEqual((self.out / "thesis.tex").read_text(), "years")

    def test_a_destination_inside_the_source_is_refused(self) -> None:
        """A source stays as it was."""
        source = self.checkpoint("zero1_dp2")
        result = self.run_program(
            "ucprun", "convert", source / "global_step4", source / "global_step4" / "x", "--to", "universal"
        )
        self.assert_refused(result, 1, "lies inside the source")

    def test_too_little_memory_is_said_at_the_start(self) -> None:
        """With the size that would do."""
        self.assert_refused(self.convert(self.checkpoint("zero1_dp2"), "--memory", "1MiB"), 1, "too little")

    def test_unknown_words(self) -> None:
        """The nearest word is named."""
        source = self.checkpoint("zero1_dp2")
        self.assert_refused(self.run_program("ucprun", "convert", source, self.out, "--to", "universl"), 1, "universal")
        self.assert_refused(self.convert(source, "--spec", "megatron_deepspeed_gtp"), 2, "megatron_deepspeed_gpt")
        self.assertIn("`convert`", self.run_program("ucprun", "convrt").stderr)
        self.assertEqual(self.run_program("ucprun").returncode, 1)

    def test_no_checkpoint(self) -> None:
        """The files that each format looks for are listed."""
        (self.folder / "empty").mkdir()
        self.assert_refused(self.convert(self.folder / "empty"), 2, "the folder is empty")
        (self.folder / "empty" / "notes.txt").touch()
        self.assert_refused(self.convert(self.folder / "empty"), 2, "latest_universal")
        self.assert_refused(self.convert(self.folder / "missing"), 2, "does not exist")

    def test_a_file_size_limit_is_an_error(self) -> None:
        """And leaves nothing."""
        source = self.checkpoint("zero1_dp2")
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
        try:
            result = self.convert(source)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        self.assert_refused(result, 2, "file too large")


if __name__ == "__main__":
    unittest.main()
