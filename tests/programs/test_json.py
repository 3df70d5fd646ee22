"""With `--json`, standard output is one JSON object, whatever happens (docs/json.md)."""

from __future__ import annotations

import json
import re
import unittest

from programs import GPT_SPEC, SOURCE, ProgramTest


class Json(ProgramTest):
    """Errors of every kind, from every program."""

    def object_of(self, code: int, program: str, *arguments: object) -> dict[str, object]:
        """The object on standard output, with the exit code that is expected."""
        result = self.run_program(program, *arguments, "--json")
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def test_errors(self) -> None:
        """Of the command line, of files that are missing, of folders that hold no checkpoint."""
        (self.folder / "spec.ucp").write_text('ucp 1\nlayout l { "x" [1] }\n')
        for code, name, *command in (
            (1, "usage", "ucpc", "check"),
            (1, "usage", "ucpc", "check", "spec.ucp", "--nosuch"),
            (1, "usage", "ucpc", "check", "spec.ucp", "--set", "x"),
            (1, "usage", "ucpc", "nosuch"),
            (1, "usage", "ucpc", "explain", "spec.ucp", "--from", "deepspeed:tp=0"),
            (1, "usage", "ucprun"),
            (1, "usage", "ucprun", "convert"),
            (1, "usage", "ucprun", "run", "a"),
            (1, "usage", "ucprun", "inspect"),
            (2, "io", "ucpc", "check", "missing.ucp"),
            (2, "io", "ucpc", "explain", "missing.ucp"),
            (2, "io", "ucpc", "plan", "spec.ucp", "--from", "missing", "--to", "universal"),
            (2, "io", "ucprun", "inspect", "missing"),
            (2, "unsupported", "ucpc", "check", "spec.ucp", "--from", "."),
            (2, "unsupported", "ucprun", "convert", ".", "out", "--to", "universal"),
        ):
            error = self.object_of(code, *command)
            self.assertEqual(list(error), ["error", "version"], command)
            self.assertEqual(error["error"]["code"], name, command)
            self.assertTrue(error["error"]["message"], command)

    def test_a_wrong_spec(self) -> None:
        """Its diagnostics stand beside the error, the same from every command, and not on standard error."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        spec = self.folder / "wrong.ucp"
        spec.write_text(GPT_SPEC.read_text().replace("[ffn@tp, hidden]", "[fnn@tp, hidden]"))
        seen = []
        for program, *command in (
            ("ucpc", "check", spec),
            ("ucpc", "check", spec, "--from", source),
            ("ucpc", "explain", spec),
            ("ucpc", "explain", spec, "--from", source),
            ("ucpc", "plan", spec, "--from", source, "--to", "universal"),
            ("ucprun", "convert", source, "out", "--to", "universal", "--spec", spec),
            ("ucprun", "inspect", source, "--spec", spec),
        ):
            result = self.run_program(program, *command, "--json")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, f"{program}: error: 1 error in `{spec}`\n")
            seen.append(json.loads(result.stdout))
        for wrong in seen:
            self.assertEqual(wrong, seen[0])
        self.assertEqual(seen[0]["error"], {"code": "spec", "message": f"1 error in `{spec}`"})
        self.assertEqual([diagnostic["kind"] for diagnostic in seen[0]["diagnostics"]], ["unknown-name"])
        self.assertEqual((seen[0]["file"], seen[0]["dropped"]), (str(spec), 0))

    def test_a_right_spec(self) -> None:
        """`check` says that there is nothing to say."""
        expected = {"file": str(GPT_SPEC), "diagnostics": [], "dropped": 0, "version": 1}
        self.assertEqual(self.object_of(0, "ucpc", "check", GPT_SPEC), expected)

    def test_the_page_names_every_key(self) -> None:
        """Each key of a report is in the section of its command, or says which checkpoint was read."""
        sections = re.split(r"^## ", (SOURCE / "docs" / "json.md").read_text(), flags=re.MULTILINE)
        page = {title: text for title, _, text in (section.partition("\n") for section in sections)}
        source = self.checkpoint("zero1_dp2")
        conversions = "plan, convert, run, synth"
        dims = ["layers=4", "hidden=64", "heads=4", "ffn=256", "vocab=512", "seq=32"]
        synth = ["synth", GPT_SPEC, "made", "--to", "universal", *(word for dim in dims for word in ("--set", dim))]
        for title, program, *command in (
            ("Diagnostics", "ucpc", "check", GPT_SPEC),
            ("explain", "ucpc", "explain", "--from", source, "--to", "universal"),
            (conversions, "ucpc", "plan", "--from", source, "--to", "universal"),
            (conversions, "ucprun", "convert", source, self.out, "--to", "universal"),
            (conversions, "ucprun", *synth),
            ("load", "ucprun", "load", source, "--to", "universal"),
            ("inspect", "ucprun", "inspect", source),
            ("inspect", "ucprun", "inspect", source, "--objects"),
            ("verify", "ucprun", "verify", source, "--same", self.out),
            ("diff", "ucprun", "diff", source, self.out),
            ("trace", "ucprun", "trace", source, "embed.weight[0,0]", "--to", "universal"),
            ("bench", "ucprun", "bench", self.folder, "--size", "1MB"),
        ):
            report = self.object_of(0, program, *command)
            self.assertEqual(report.pop("version"), 1, command)
            for key in report:
                if key not in ("checkpoint", "checkpoints"):
                    self.assertIn(f"`{key}`", page[title], command)

    def test_errors_are_counted_as_they_are_shown(self) -> None:
        """One mistake that many tensors meet is one error."""
        result = self.run_program(
            "ucpc", "explain", GPT_SPEC, "--from", self.checkpoint("gpt_pp2_tp2_dp2"), "--to", "deepspeed:tp=4,pp=8"
        )
        self.assertEqual(result.stderr.count(" error: `"), 1)
        self.assertIn(f"ucpc: error: 1 error in `{GPT_SPEC}`", result.stderr)


if __name__ == "__main__":
    unittest.main()
