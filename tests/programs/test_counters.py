"""Every byte is read for what it is needed for, and for nothing else: the counters of the report against sizes that
follow from the model's shapes."""

from __future__ import annotations

import json
import math
import re
import unittest

from programs import GPT_SPEC, SOURCE, ProgramTest

MASTER, MOMENTS, WEIGHT = 4, 8, 2  # Bytes of an element: float32, two of it, bfloat16.


def elements(case: str, pattern: str = "") -> int:
    """Of all trained parameters of a fixture whose names have this in them."""
    tensors = json.loads((SOURCE / "tests" / "fixtures" / case / "truth.json").read_text())["tensors"]
    return sum(
        math.prod(entry["shape"])
        for name, entry in tensors.items()
        if entry["kind"] == "parameter" and re.search(pattern, name)
    )


class Counters(ProgramTest):
    """Native to native."""

    def report(self, case: str, to: str, *options: object) -> dict[str, int]:
        """The counts of the conversion."""
        source = self.folder / case
        source = source if source.exists() else self.checkpoint(case)
        out = self.folder / f"out-{len(list(self.folder.iterdir()))}"
        result = self.run_program("ucprun", "convert", source, out, "--to", to, "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        files = sum(path.stat().st_size for path in out.rglob("*") if path.is_file() and path.suffix == ".pt")
        report = json.loads(result.stdout)
        latest = len((out / "latest").read_bytes()) if (out / "latest").exists() else 0
        if to != "universal":
            self.assertEqual(report["bytes_written"], files + latest)
        return report

    def test_a_master_feeds_its_shard_and_the_weight(self) -> None:
        """Read once for each; the source's weight is compared once. Nothing else is read."""
        count = elements("zero1_dp4")
        for to in ("deepspeed:dp=2", "deepspeed:dp=8,zero=2", "deepspeed:dp=3,zero=1,optimizer=bf16"):
            report = self.report("zero1_dp4", to)
            self.assertEqual(report["bytes_to_copy"], count * (MASTER + MOMENTS), to)
            self.assertEqual(report["bytes_copied"], count * (2 * MASTER + MOMENTS), to)
            self.assertEqual(report["bytes_compared"], count * WEIGHT, to)

    def test_trusted_replicas_are_not_read(self) -> None:
        """And then no weight is, either."""
        report = self.report("zero1_dp4", "deepspeed:dp=2", "--replicas", "trust")
        self.assertEqual(report["bytes_compared"], 0)
        self.assertEqual(report["bytes_copied"], elements("zero1_dp4") * (2 * MASTER + MOMENTS))

    def test_a_replica_is_compared_once(self) -> None:
        """Tensor-parallel ranks have copies of norms and some biases, the last stage one of the tied embedding (and no
        file of its weight). A target that has each element once compares each copy once."""
        case = "gpt_pp2_tp2_dp2"
        count = elements(case)
        copies = elements(case, r"norm|position_embeddings|dense\.bias|4h_to_h\.bias|^\d+\.(weight|bias)$")
        tied = elements(case, "word_embeddings")
        for to, uses in (("universal", 1), ("deepspeed:dp=2", 2), ("deepspeed:dp=3,zero=1,optimizer=zero", 2)):
            report = self.report(case, to, "--spec", GPT_SPEC)
            self.assertEqual(report["bytes_to_copy"], count * (MASTER + MOMENTS), to)
            self.assertEqual(
                report["bytes_compared"], (copies + tied) * (MASTER + MOMENTS) + (count + copies) * WEIGHT, to
            )
            self.assertEqual(report["bytes_copied"], count * (uses * MASTER + MOMENTS), to)

    def test_a_target_with_copies_compares_once(self) -> None:
        """Its tensor-parallel ranks hold the norms each, its stages the tied embedding, and without ZeRO nothing else
        is cut: each copy of the source is compared with the first of them."""
        case = "gpt_pp2_tp2_dp2"
        universal = self.report(case, "universal", "--spec", GPT_SPEC)
        for to in ("deepspeed:pp=2,tp=2,dp=2", "deepspeed:tp=4,dp=1", "deepspeed:pp=2,tp=4,dp=2"):
            report = self.report(case, to, "--spec", GPT_SPEC)
            self.assertEqual(report["bytes_compared"], universal["bytes_compared"], to)
            self.assertEqual(report["bytes_compared"], report["bytes_to_compare"], to)


if __name__ == "__main__":
    unittest.main()
