"""The first commands of a new user: a model as Hugging Face's libraries save it, and folders that are none."""

from __future__ import annotations

import json
import math
import struct
import unittest
from pathlib import Path

from programs import ProgramTest

HIDDEN, FFN, HEADS, KV_HEADS, HEAD, VOCAB, LAYERS = 16, 24, 4, 2, 4, 32, 2
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 13476839424\n"


def llama_shapes() -> dict[str, list[int]]:
    """Every weight of a small Llama."""
    shapes = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN],
              "lm_head.weight": [VOCAB, HIDDEN]}  # fmt: skip
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = [HIDDEN]
        shapes[prefix + "post_attention_layernorm.weight"] = [HIDDEN]
        shapes[prefix + "self_attn.q_proj.weight"] = [HEADS * HEAD, HIDDEN]
        shapes[prefix + "self_attn.k_proj.weight"] = [KV_HEADS * HEAD, HIDDEN]
        shapes[prefix + "self_attn.v_proj.weight"] = [KV_HEADS * HEAD, HIDDEN]
        shapes[prefix + "self_attn.o_proj.weight"] = [HIDDEN, HEADS * HEAD]
        shapes[prefix + "mlp.gate_proj.weight"] = [FFN, HIDDEN]
        shapes[prefix + "mlp.up_proj.weight"] = [FFN, HIDDEN]
        shapes[prefix + "mlp.down_proj.weight"] = [HIDDEN, FFN]
    return shapes


def write_safetensors(path: Path, shapes: dict[str, list[int]], dtypes: dict[str, str]) -> None:
    """Zeros in BF16, or in the dtype that is named."""
    header: dict[str, object] = {}
    end = 0
    for name, shape in shapes.items():
        dtype = dtypes.get(name, "BF16")
        begin, end = end, end + math.prod(shape) * (4 if dtype == "F32" else 2)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


class FirstMinutes(ProgramTest):
    """Each sentence names the thing and the next step."""

    def model(self, dtypes: dict[str, str] | None = None, *, config: bool = True, tied: bool = False) -> Path:
        folder = self.folder / "llama"
        folder.mkdir()
        shapes = llama_shapes()
        if tied:
            del shapes["lm_head.weight"]
        write_safetensors(folder / "model.safetensors", shapes, dtypes or {})
        if config:
            names = {"hidden_size": HIDDEN, "intermediate_size": FFN, "num_attention_heads": HEADS,
                     "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
                     "tie_word_embeddings": tied, "model_type": "llama"}  # fmt: skip
            (folder / "config.json").write_text(json.dumps(names))
        return folder

    def inspect(self, path: Path, *words: str) -> None:
        self.assert_refused(self.run_program("ucprun", "inspect", path), 2, *words)

    def test_a_model_becomes_a_job_at_once(self) -> None:
        result = self.run_program("ucprun", "convert", self.model(), self.out, "--to", "deepspeed:tp=2,dp=2,zero=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: the spec `llama` of the catalogue fits", result.stderr)
        self.assertIn("note: the model computes in bfloat16, which its weights are stored in", result.stderr)
        self.assertIn("note: the source has no tag", result.stderr)
        saved = sorted(path.name for path in (self.out / "global_step0").iterdir())
        self.assertEqual(sum("optim_states" in name for name in saved), 4)

    def test_what_was_written_of_a_tied_model_is_read_again(self) -> None:
        """The second name is in the engine's files, and no pattern of their metadata has it."""
        result = self.run_program(
            "ucprun", "convert", self.model(tied=True), self.out, "--to", "deepspeed:tp=2,dp=2,zero=1"
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        back = self.run_program("ucprun", "verify", self.out, "--same", self.folder / "llama")
        self.assertEqual(back.returncode, 0, back.stderr)

    def test_a_draft_has_the_usual_cuts_and_ties(self) -> None:
        """A draft is a spec as it is, and each cut that a name alone tells is a question."""
        source = self.model(tied=True)
        drafted = self.run_program("ucpc", "infer", source, "-o", "drafted.ucp")
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        self.assertIn("20 tensors, 7 questions", drafted.stderr)
        text = (self.folder / "drafted.ucp").read_text()
        self.assertRegex(text, r'"self_attn.k_proj.weight" +\[kv_heads@tp \* 4, hidden\]')
        self.assertRegex(text, r'"mlp.down_proj.weight" +\[hidden, ffn@tp\]')
        self.assertIn('tie "lm_head.weight" = "model.embed_tokens.weight"', text)
        target = ("--to", "deepspeed:tp=2,dp=2,zero=1", "--spec", "drafted.ucp")
        result = self.run_program("ucprun", "convert", source, self.out, *target)
        self.assertEqual(result.returncode, 0, result.stderr)
        back = self.run_program("ucprun", "verify", self.out, "--same", source)
        self.assertEqual(back.returncode, 0, back.stderr)

    def test_all_that_is_missing_is_said_at_once(self) -> None:
        mixed = {"model.norm.weight": "F32"}
        result = self.run_program("ucprun", "convert", self.model(mixed), self.out, "--to", "deepspeed:dp=2")
        self.assert_refused(result, 1, "zero=0 to zero=3 for the ZeRO stage", "its weights are bfloat16 and float32",
                            "--to deepspeed:dp=2,dtype=bf16,zero=1")  # fmt: skip

    def test_so_is_a_spec(self) -> None:
        folder = self.model(config=False)
        result = self.run_program("ucprun", "convert", folder, self.out, "--to", "deepspeed:tp=2,dp=2")
        self.assert_refused(result, 1, "name one with --config", "also has to say zero=0 to zero=3")

    def test_the_number_of_gpus_is_enough(self) -> None:
        source = self.model()
        listed = self.run_program("ucprun", "convert", source, self.out, "--to", "6gpus", "--dry-run")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("possible: deepspeed:tp=2,dp=3,zero=1,", listed.stdout)
        self.assertIn("not possible: deepspeed:pp=3,tp=2,dp=1: `layers` is 2 and does not divide", listed.stdout)
        self.assertFalse(self.out.exists())
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "6gpus")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("6gpus is taken as --to deepspeed:dp=6,zero=1", result.stdout + result.stderr)

    def test_plans_list_the_strategies(self) -> None:
        source = self.model()
        planned = self.run_program("ucpc", "plan", "--from", source, "--to", "6gpus")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        for words in ("6gpus is taken as", "possible: deepspeed:tp=2,dp=3,zero=1,", "not possible: deepspeed:pp=3"):
            self.assertIn(words, planned.stdout)
        of_strategy = ("plan", "llama", "--from", "deepspeed:dp=2,zero=1", "--to", "6gpus", "--config")
        refused = self.run_program("ucpc", *of_strategy, source / "config.json")
        self.assert_refused(refused, 1, "`6gpus` is for a checkpoint; name the strategy")

    def test_pointers_of_git_lfs(self) -> None:
        folder = self.model()
        for name in ("model.safetensors", "pytorch_model.bin"):
            for path in folder.iterdir():
                path.unlink()
            (folder / name).write_text(POINTER)
            self.inspect(folder, f"`{folder / name}` is a pointer of Git LFS", "13476839424 bytes", "git lfs pull")

    def test_folders_that_are_none(self) -> None:
        for folder, name, *words in (
            ("empty", "", "the folder is empty"),
            ("config", "config.json", "no weights"),
            ("gguf", "model.gguf", "GGUF file"),
            ("adapter", "adapter_config.json", "an adapter of PEFT", "merge_and_unload()"),
            ("hub", "models--a--b/snapshots/0123/config.json", f"{self.folder}/hub/models--a--b/snapshots/0123"),
            ("up", "run/step4/mp_rank_00_model_states.pt", f"`{self.folder}/up/run/step4`: name it"),
        ):
            with self.subTest(folder):
                path = self.folder / folder / name
                (path.parent if name else path).mkdir(parents=True)
                if name:
                    path.write_text("{}")
                self.inspect(self.folder / folder, *words)

    def test_files_that_are_none(self) -> None:
        gguf = self.folder / "m.gguf"
        gguf.write_bytes(b"GGUF\x03\x00\x00\x00")
        self.inspect(gguf, "GGUF file")


if __name__ == "__main__":
    unittest.main()
