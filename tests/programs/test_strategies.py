"""Strategies: what each format takes, on the command line and in a spec."""

from __future__ import annotations

import unittest

from programs import SOURCE, ProgramTest

SPEC = """ucp 1
dim layers
mesh pp
{}
layout l {{
  "layers.{{i: layers@pp}}.norm" [4]
}}
"""


class Strategies(ProgramTest):
    """Right ones and wrong ones."""

    def explain(self, strategy: str, *more: object, declared: str = "") -> tuple[int, str, str]:
        """The exit code and what was printed, for a model of four layers."""
        (self.folder / "spec.ucp").write_text(SPEC.format(declared))
        result = self.run_program("ucpc", "explain", "spec.ucp", "--from", strategy, "--set", "layers=4", *more)
        return result.returncode, result.stdout, result.stderr

    def test_values_that_a_format_does_not_take(self) -> None:
        """The key, the value, and what it takes instead."""
        for strategy, words in (
            ("deepspeed:zero=9", "takes a whole number from 0 to 3, not `9`"),
            ("deepspeed:dtype=int3", "takes fp32, fp16 or bf16, not `int3`"),
            ("deepspeed:tp=0", "takes a whole number from 1 to 1000000, not `0`"),
            ("deepspeed:pp=0+0", "not `0+0`"),
            ("deepspeed:mp=2", "no setting `mp`"),
            ("universal:mp=0", "takes a whole number from 1 to 16384, not `0`"),
            ("universal:tp=2", "no setting `tp`"),
        ):
            for arguments in ((strategy,), ("deepspeed:pp=2", "--to", strategy)):
                code, printed, message = self.explain(*arguments)
                self.assertEqual((code, printed), (1, ""), message)
                self.assertIn(words, message)

    def test_a_spec_is_checked_for_them(self) -> None:
        """Every one of them in one run, at its place, beside other errors."""
        (self.folder / "spec.ucp").write_text("""ucp 1
strategy a { format = deepspeed zero = 9 dtype = int3 tp = 0 pp = [0, 0] }
strategy b { format = univresal mp = 3 }
strategy universal { format = universal mp = 2 }
strategy c { format = deepspeed pp = [1, 2, 1] interleave = 2 }
layout l { "x" [nothing] }
""")
        result = self.run_program("ucpc", "check", "spec.ucp")
        self.assertEqual(result.returncode, 1)
        places = [line.split(": error:")[0] for line in result.stderr.splitlines() if line.startswith("spec.ucp:")]
        self.assertEqual(
            places, [f"spec.ucp:{place}" for place in ("2:33", "2:42", "2:55", "2:62", "3:23", "4:10", "5:10", "6:17")]
        )
        self.assertIn("8 errors in `spec.ucp`", result.stderr)
        self.assertIn("did you mean `universal`?", result.stderr)
        self.assertIn("`universal` is the name of a format", result.stderr)

    def test_a_named_one_is_what_it_says(self) -> None:
        """As on the command line; a wrong one is shown with its spec, and nothing that follows."""
        declared = "strategy mine {{ format = deepspeed pp = [3, {}] }}"
        code, printed, message = self.explain("mine", declared=declared.format(1))
        self.assertEqual((code, message), (0, ""))
        self.assertIn("source is deepspeed, pp=2", printed)
        code, _, message = self.explain("mine", declared=declared.format(-1).replace("-1", "1] zero = [4"))
        self.assertEqual(code, 1)
        self.assertIn("spec.ucp:4:", message)
        self.assertNotIn("does not exist", message)

    def test_no_interleaving_contradicts_a_layout_that_interleaves(self) -> None:
        """And saying nothing does not."""
        text = SPEC.format("").replace("layout l {", "layout l {\n  interleave = 2")
        (self.folder / "spec.ucp").write_text(text)
        command = ("ucpc", "explain", "spec.ucp", "--set", "layers=4", "--from")
        self.assertEqual(self.run_program(*command, "deepspeed:pp=2").returncode, 0)
        self.assertEqual(self.run_program(*command, "deepspeed:pp=2,interleave=2").returncode, 0)
        result = self.run_program(*command, "deepspeed:pp=2,interleave=1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the layout has 2 chunks on each stage, and the strategy 1", result.stderr)

    def test_a_batch_that_does_not_divide(self) -> None:
        """Eight samples in the source: reports of both kinds of targets say it for 3 replicas, and not for 2."""
        source = self.checkpoint("autoep_tp2_ep4_dp4")
        words = "the global batch of 8 samples does not divide over 3 data-parallel ranks"
        for target in ("universal:mp=2,ep=2", "deepspeed:tp=2,ep=2,zero=1"):
            for dp, says in ((2, False), (3, True)):
                result = self.run_program(
                    "ucpc",
                    "plan",
                    SOURCE / "tests/fixtures/autoep_autotp.ucp",
                    "--from",
                    source,
                    "--to",
                    f"{target},dp={dp}",
                )
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(words in result.stdout + result.stderr, says, (target, dp))

    def test_the_stages_of_the_target_are_shown(self) -> None:
        """Beside those of the source."""
        code, printed, message = self.explain("deepspeed:pp=2", "--to", "deepspeed:pp=4")
        self.assertEqual((code, message), (0, ""))
        self.assertIn("\n  stages    0, 1, each on one of them\n", printed)
        self.assertIn("\n  to stages 0, 1, 2, 3, each on one of them\n", printed)
        _, printed, _ = self.explain("deepspeed:pp=2", "--to", "universal")
        self.assertNotIn("to stages", printed)


if __name__ == "__main__":
    unittest.main()
