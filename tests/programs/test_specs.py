"""Wrong specs on a real checkpoint: place, both numbers, exit code 1."""

from __future__ import annotations

import resource
import subprocess
import unittest

from programs import GPT_SPEC, ProgramTest, line_of


class WrongSpecs(ProgramTest):
    """Each breaks one line of a spec that is right."""

    def convert_with(self, old: str, new: str) -> subprocess.CompletedProcess[str]:
        """Converts with the spec in which `old` is `new`."""
        text = GPT_SPEC.read_text()
        self.assertIn(old, text)
        spec = self.folder / "wrong.ucp"
        spec.write_text(text.replace(old, new))
        return self.convert(self.checkpoint("gpt_pp2_tp2_dp2"), "--spec", spec)

    def assert_wrong(self, result: subprocess.CompletedProcess[str], *words: str) -> None:
        """Exit code 1, with a place, these words, and nothing written."""
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"error")
        for word in words:
            self.assertIn(word, result.stderr)
        self.assert_nothing_left()

    def test_a_wrong_factor(self) -> None:
        """Both numbers and the place."""
        result = self.convert_with("[heads@tp * 3 * head, hidden]", "[heads@tp * 4 * head, hidden]")
        self.assert_wrong(result, f"wrong.ucp:{line_of('query_key_value.weight')}:", "32", "24", "shape-mismatch")

    def test_the_wrong_axis(self) -> None:
        """Rows for columns."""
        result = self.convert_with(
            '"mlp.dense_4h_to_h.weight"                     [hidden, ffn@tp]',
            '"mlp.dense_4h_to_h.weight"                     [hidden@tp, ffn]',
        )
        self.assert_wrong(result, f"wrong.ucp:{line_of('dense_4h_to_h.weight')}:", "shape-mismatch")

    def test_a_typo_in_a_name(self) -> None:
        """The nearest name, and the segment that differs."""
        result = self.convert_with("mlp.dense_4h_to_h.bias", "mlp.dense_4h_to_j.bias")
        self.assert_wrong(result, "missing-tensor", "`dense_4h_to_h` differs from `dense_4h_to_j`")

    def test_a_typo_in_a_dim(self) -> None:
        """The nearest dim."""
        self.assert_wrong(self.convert_with("[ffn@tp, hidden]", "[fnn@tp, hidden]"), "`ffn`")

    def test_a_tensor_that_no_pattern_matches(self) -> None:
        """No fall-through: it must be declared or dropped."""
        result = self.convert_with('"self_attention.dense.bias"                    [hidden]', "")
        self.assert_wrong(result, "unmatched-tensor", "self_attention.dense.bias")

    def test_a_mean_over_ranks_that_share_one_copy(self) -> None:
        """ZeRO's data-parallel ranks: there is nothing to average."""
        bias = '"self_attention.dense.bias"                    [hidden]'
        result = self.convert_with(bias, bias + " mean@dp")
        self.assert_refused(
            result,
            2,
            f"wrong.ucp:{line_of('self_attention.dense.bias')} averages tensor",
            "over 2 copies, and the checkpoint has 1",
        )

    def test_two_patterns_for_one_name(self) -> None:
        """Both places."""
        result = self.convert_with('"mlp.dense_h_to_4h.bias"', '"mlp.{dense_h_to_4h|dense_4h_to_h}.bias"')
        self.assert_wrong(
            result, f"wrong.ucp:{line_of('dense_h_to_4h.bias')}:", f"wrong.ucp:{line_of('dense_4h_to_h.bias')}:"
        )

    def test_an_axis_that_does_not_divide(self) -> None:
        """Both numbers."""
        result = self.convert_with("dim heads   from args.num_attention_heads", "dim heads = 3")
        self.assert_wrong(result, "3")

    def test_a_label_without_a_model(self) -> None:
        """It is named, and so is what it belongs to."""
        result = self.convert_with("[ffn@tp, hidden]", "[q: ffn@tp, hidden]")
        self.assert_wrong(result, "the label `q:` names a part of a model", "bad-expression")

    def test_several_errors_in_one_run(self) -> None:
        """In the order of the text."""
        result = self.convert_with("mlp.dense_4h_to_h.bias", "mlp.dense_4h_to_j.bias")
        self.assertEqual(result.stderr.count("error: "), 2)
        result = self.convert(self.checkpoint("zero1_dp1"), "--spec", "megatron_deepspeed_llama")
        self.assertGreater(result.stderr.count("error: "), 2)


class LongSpecs(ProgramTest):
    """A spec that is far too long is refused in time that grows with its length."""

    def test_a_name_with_a_hundred_thousand_alternatives(self) -> None:
        """Each is looked for among those before it; comparing it with all of them took half a minute."""
        alternatives = "|".join(f"a{number}x" for number in range(100_000))
        (self.folder / "spec.ucp").write_text(f'ucp 1\nlayout l {{\n  "{{{alternatives}}}.w" [4]\n}}\n')
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = self.run_program("ucpc", "check", "spec.ucp")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is longer than 1024 bytes or 200 pieces", result.stderr)
        self.assertLess(after.ru_utime - before.ru_utime, 5)


class Trials(ProgramTest):
    """`ucpc test` from outside."""

    def test_numbers_that_are_none(self) -> None:
        """Each is refused before anything is tried."""
        (self.folder / "spec.ucp").write_text('ucp 1\nlayout l { "x" [4] }\n')
        for option in ("--seed=-1", "--seed=1.5", "--seconds=-1", "--seconds=nan", "--seconds=inf", "--seconds=x"):
            result = self.run_program("ucpc", "test", "spec.ucp", option)
            self.assertEqual((result.returncode, result.stdout), (1, ""), option)
            self.assertIn(f"takes a {'whole ' if 'seed' in option else ''}number from 0", result.stderr)
        result = self.run_program("ucpc", "test", "spec.ucp", "--seed=7", "--seconds=0.5")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_no_values_reach_is_not_passed(self) -> None:
        """A branch that was never made is listed with its line, and fails unless that is allowed."""
        (self.folder / "spec.ucp").write_text(
            'ucp 1\ndim layers\nlayout l {\n  block "{i: layers}" {\n'
            '    when i > 2000 {\n      "a.{weight|bias}" [4]\n    } else {\n      "b.weight" [4]\n    }\n  }\n}\n'
        )
        result = self.run_program("ucpc", "test", "spec.ucp", "--seconds=0")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn('unreached    spec.ucp:6: "a.{weight|bias}"\n', result.stdout)
        self.assertIn("of 1 item, no values that were tried make a tensor", result.stderr)
        result = self.run_program("ucpc", "test", "spec.ucp", "--seconds=0", "--allow-unreached")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("unreached", result.stdout)

    def test_values_are_sought_that_reach_each_branch(self) -> None:
        """Divisions by 7, a default of 0, both sides of a comparison, and a list's value that no text names."""
        (self.folder / "spec.ucp").write_text(
            "ucp 1\ndim layers\ndim step\ndim hidden\ndim latent from config.latent else 0\n"
            "fact kinds from config.kinds\nmesh pp, dp, tp\nlayout l {\n"
            '  block "l.{i: layers@pp}" {\n    "x.weight" [hidden@tp]\n'
            '    when (i + 1) % step == 0 { "y.weight" [hidden] } else { "z.weight" [(hidden / 7)@tp] }\n'
            '    when latent == 0 { "p.weight" [4] } else { "q.weight" [latent] }\n'
            '    when kinds[i] in ["a", "b"] { "c.weight" [4] } else when kinds[i] == "d" { "d.weight" [4] }'
            ' else { "e.weight" [4] }\n  }\n}\n'
        )
        result = self.run_program("ucpc", "test", "spec.ucp", "--seconds=0")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertNotIn("unreached", result.stdout)

    def test_a_model_that_is_too_large(self) -> None:
        """A trial follows every element of every tensor, so it says at once what it does not follow."""
        (self.folder / "spec.ucp").write_text('ucp 1\ndim layers\nlayout l { "{i: layers}.x" [4] }\n')
        result = self.run_program("ucpc", "test", "spec.ucp", "--set", "layers=1001")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("1001 tensors are more than the 1000 that a trial follows; give smaller values with --set",
                      result.stderr)  # fmt: skip

    def test_a_million_names_are_refused_without_being_made(self) -> None:
        """They are counted; making them takes seconds, and ten times as many are more than a spec may have at all."""
        (self.folder / "spec.ucp").write_text('ucp 1\ndim layers\nlayout l {\n  "layers.{i: layers}.{a|b}" [4]\n}\n')
        for layers in (400_000, 4_000_000, 2**61):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = self.run_program("ucpc", "test", "spec.ucp", "--set", f"layers={layers}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assert_refused(result, 1, f"{2 * layers} tensors are more than the 1000 that a trial follows")
            self.assertLess(after.ru_utime - before.ru_utime, 0.5)


if __name__ == "__main__":
    unittest.main()
