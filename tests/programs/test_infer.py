"""ucpc infer on real checkpoints: the draft describes them, and asks what nothing decides."""

from __future__ import annotations

import unittest

from programs import SOURCE, ProgramTest


class Drafts(ProgramTest):
    """Drafts of what DeepSpeed wrote."""

    def test_a_draft_is_a_spec_that_converts(self) -> None:
        """Megatron's patterns and pipeline stages; the files written are those of the catalogue's spec."""
        source = self.checkpoint("llama_pp2_tp2_dp2")
        drafted = self.run_program("ucpc", "infer", source, "-o", "drafted.ucp")
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        self.assertIn("21 tensors, 2 questions", drafted.stderr)
        text = (self.folder / "drafted.ucp").read_text()
        self.assertRegex(text, r'"mlp.dense_h_to_4h.weight" +\[2 \* \(ffn@tp\), hidden\]')
        self.assertRegex(text, r'"8.lm_head.weight" +\[pad\(vocab, 16 \* tp\)@tp, hidden\] +at pp.last')
        self.assertEqual(self.run_program("ucpc", "fmt", "--check", "drafted.ucp").returncode, 0)
        self.assert_done(self.convert(source, "--spec", "drafted.ucp"))
        drafted_files = self.parameter_files()
        self.assert_done(self.convert(source, "--spec", "megatron_deepspeed_llama", "--force"))
        self.assertEqual(drafted_files, self.parameter_files())

    def parameter_files(self) -> dict[str, bytes]:
        """Every file of a parameter; the one that the question is about says which parts it has, so it may differ."""
        files = self.out.glob("*/zero/*/*.pt")
        files = [file for file in files if "query_key_value" not in str(file)]
        return {str(file.relative_to(self.out)): file.read_bytes() for file in files}

    def test_a_configuration_says_what_is_cut(self) -> None:
        """AutoTP keeps heads whole: without a configuration the draft asks, with one it writes their number."""
        source = self.checkpoint("autotp_tp2_dp2")
        without = self.run_program("ucpc", "infer", source)
        self.assertEqual(without.returncode, 0, without.stderr)
        self.assertIn("21 tensors, 7 questions", without.stderr)
        self.assertIn("no config.json was found beside the checkpoint", without.stderr)
        config = (
            '{"hidden_size": 16, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 26,'
            ' "vocab_size": 101, "num_hidden_layers": 2}'
        )
        (self.folder / "config.json").write_text(config)
        by_option = self.run_program("ucpc", "infer", source, "--config", self.folder / "config.json")
        (source / "config.json").write_text(config)
        beside = self.run_program("ucpc", "infer", source, "-o", "drafted.ucp")
        self.assertEqual(by_option.stdout, (self.folder / "drafted.ucp").read_text())
        self.assertIn("21 tensors, 2 questions", beside.stderr)
        self.assertRegex(by_option.stdout, r'"self_attn.k_proj.weight" +\[kv_heads@tp \* 2, hidden\]')
        target = ("--to", "deepspeed:tp=8,dp=1,zero=1", "--spec", "drafted.ucp")
        result = self.run_program("ucprun", "convert", source, self.out, *target)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("kv_heads", result.stderr)

    def test_a_checkpoint_that_states_its_boxes(self) -> None:
        """FSDP over tensor parallelism: to a spec its tensors are whole, and the cuts of a draft move no element."""
        source = SOURCE / "tests" / "fixtures" / "dcp" / "fsdp2_tp" / "checkpoint"
        drafted = self.run_program("ucpc", "infer", source, "-o", "drafted.ucp")
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        self.assert_done(self.convert(source, "--spec", "drafted.ucp"))
        self.assertGreater(len(self.parameter_files()), 20)
        self.assert_done(self.run_program("ucprun", "verify", self.out, "--same", source))

    def test_no_draft_replaces_a_file(self) -> None:
        """Drafts are edited by hand."""
        source = self.checkpoint("zero1_dp2")
        (self.folder / "mine.ucp").write_text("ucp 1\n")
        result = self.run_program("ucpc", "infer", source, "-o", "mine.ucp")
        self.assertEqual(result.returncode, 1)
        self.assertIn("`mine.ucp` is a spec, and nothing replaces it", result.stderr)
        self.assertEqual((self.folder / "mine.ucp").read_text(), "ucp 1\n")

    def test_without_tensor_parallelism_nothing_is_asked(self) -> None:
        """Every tensor is whole, and the heading says what that cannot tell."""
        result = self.run_program("ucpc", "infer", self.checkpoint("zero1_dp2"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("17 tensors, 0 questions", result.stderr)
        self.assertIn('block "blocks.{i: 2}" {', result.stdout)
        self.assertIn("headers cannot tell what another degree would cut", result.stdout)


if __name__ == "__main__":
    unittest.main()
