"""Dims and facts from a model's config.json: named, found in the checkpoint, and refused."""

from __future__ import annotations

import json
import subprocess
import unittest

from programs import GPT_SPEC, ProgramTest

SPEC = """ucp 1
dim layers from config.num_hidden_layers
dim inner  from config.text_config.intermediate_size else 5
fact tied  from config.tie_word_embeddings
fact kinds from config.layer_types
fact rope  from config.rope_theta
fact noise from config.attention_dropout else false
layout l {
  when tied and kinds[1] == "moe" and rope == 10000 and not noise { "{i: layers}.weight" [inner] }
}
"""


class Config(ProgramTest):
    """One spec whose values all come from a configuration."""

    def explain(self, text: str) -> subprocess.CompletedProcess[str]:
        """The meaning of the spec with this configuration."""
        (self.folder / "spec.ucp").write_text(SPEC)
        (self.folder / "config.json").write_text(text)
        return self.run_program("ucpc", "explain", "spec.ucp", "--config", "config.json")

    def test_values_of_every_kind(self) -> None:
        """Numbers, booleans, texts, lists, nested objects; null does not exist."""
        config = {
            "num_hidden_layers": 2,
            "tie_word_embeddings": True,
            "layer_types": ["mamba", "moe"],
            "text_config": {"intermediate_size": 7},
            "rope_theta": 10000.0,
            "attention_dropout": None,
            "rope_scaling": {"factor": [1.5, None]},
            "odd key": 3,
        }
        result = self.explain(json.dumps(config))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for line in (
            "dim layers is 2, read from `config.num_hidden_layers`",
            "dim inner is 7, read from `config.text_config.intermediate_size`",
            "fact tied is true, read from `config.tie_word_embeddings`",
            'fact kinds is ["mamba", "moe"], read from `config.layer_types`',
            "fact noise is false, its default",
            "{0-1}.weight  x 2",
            "2 tensors: 14 parameters",
        ):
            self.assertIn(line, result.stdout)

    def test_what_is_no_configuration(self) -> None:
        """Each is refused with a sentence and the file's name."""
        for text, words in (
            ("[1, 2]", "holds no JSON object"),
            ("{", "is not valid JSON"),
            ("", "is not valid JSON"),
            ("[" * 100000, "nested deeper than 64"),
            ('{"a": "\udc80"}', "is not valid JSON"),
            (" " * (4 << 20) + "{}", "4194306"),
        ):
            (self.folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
            (self.folder / "spec.ucp").write_text(SPEC)
            result = self.run_program("ucpc", "explain", "spec.ucp", "--config", "config.json")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("config.json", result.stderr)
            self.assertIn(words, result.stderr)

    def test_values_that_are_no_size(self) -> None:
        """The file, the value and the reason."""
        for value, words in (
            ('"a"', '`config.num_hidden_layers` is "a" in `config.json`, which is not a whole number'),
            ("1.5", "is 1.5 in `config.json`, which is not a whole number"),
            ("-1", "is -1 in `config.json`, which is negative"),
            ("99999999999999999999", "is 1e+20 in `config.json`, which does not fit in 63 bits"),
        ):
            result = self.explain(f'{{"num_hidden_layers": {value}}}')
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)

    def test_values_need_a_spec(self) -> None:
        """Nothing that was given is passed over."""
        (self.folder / "config.json").write_text("{}")
        source = self.checkpoint("zero1_dp2")
        for option in (("--set", "layers=1"), ("--config", "config.json")):
            for command in (
                ("ucprun", "convert", source, self.out, "--to", "universal"),
                ("ucprun", "inspect", source),
                ("ucpc", "plan", "--from", source, "--to", "universal"),
            ):
                self.assert_refused(self.run_program(*command, *option), 1, option[0], "no")

    def test_it_is_found_in_the_checkpoint(self) -> None:
        """In the root, in the tag's folder, which is nearer, and on the command line, which is nearest."""
        spec = self.folder / "gpt.ucp"
        text = GPT_SPEC.read_text().replace("from args.num_layers", "from config.layers")
        spec.write_text(text)
        checkpoint = self.checkpoint("gpt_pp2_tp2_dp2")
        tag = checkpoint / (checkpoint / "latest").read_text().strip()
        command = ("ucpc", "check", spec, "--from", checkpoint)
        for file in (checkpoint / "config.json", tag / "config.json"):
            (checkpoint / "config.json").write_text('{"layers": 3}')
            file.write_text('{"layers": 4}')
            result = self.run_program(*command)
            self.assertEqual(result.returncode, 0, result.stderr)
        (self.folder / "mine.json").write_text('{"layers": 3}')
        result = self.run_program(*command, "--config", "mine.json")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("no tensor `7.weight`", result.stderr)

    def test_check_on_a_checkpoint_warns(self) -> None:
        """As text and as JSON."""
        spec = self.folder / "gpt.ucp"
        spec.write_text(GPT_SPEC.read_text().rstrip().removesuffix("}") + '  drop "nothing.here"\n}\n')
        command = ("ucpc", "check", spec, "--from", self.checkpoint("gpt_pp2_tp2_dp2"))
        result = self.run_program(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(
            "the checkpoint has no tensor `nothing.here` that this drops [pattern-matches-nothing]", result.stderr
        )
        kinds = [d["kind"] for d in json.loads(self.run_program(*command, "--json").stdout)["diagnostics"]]
        self.assertEqual(kinds, ["pattern-matches-nothing"])


if __name__ == "__main__":
    unittest.main()
