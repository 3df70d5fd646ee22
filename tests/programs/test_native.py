"""Native DeepSpeed files as a target: laws that hold for all strategies, and what is refused."""

from __future__ import annotations

import os
import random
import unittest
import zipfile
from pathlib import Path

from programs import GPT_SPEC, SOURCE, ProgramTest
from programs import files_of as all_files_of

SEED = int(os.environ.get("UCP_TEST_SEED", "1"))
LLAMA_SPEC = SOURCE / "specs" / "megatron_deepspeed_llama.ucp"
SPEC_OF = {"gpt_pp2_tp2_dp2": GPT_SPEC, "llama_pp2_tp2_dp2": LLAMA_SPEC}

# Fixtures, and the degrees that their models can have.
FIXTURES = {
    "zero1_dp4": [(1, 1)],
    "zero2_dp2": [(1, 1)],
    "zero1_dp2": [(1, 1)],
    "bf16_optimizer_dp4_tiny": [(1, 1)],
    "round_robin": [(1, 1)],
    "alignment": [(1, 1)],
    "frozen_buffers_zero2": [(1, 1)],
    "sgd_momentum_zero1": [(1, 1)],
    "moe_ep2_dp4": [(1, 1)],
    "moe_ep2_ep4_dp4": [(1, 1)],
    "pipeline_pp2": [(1, 1), (2, 1)],
    "gpt_pp2_tp2_dp2": [(pp, tp) for pp in (1, 2, 4) for tp in (1, 2, 4)],
    "llama_pp2_tp2_dp2": [(pp, tp) for pp in ("1", "2+1") for tp in (1, 2, 4)],
}
# The stages of a model, where it cannot have 1, 2 and 3. FusedAdam alone has 0: views in the module then say which
# parameter is which, in any model.
STAGES = {
    "zero1_dp2": [0, 1, 2, 3],
    "pipeline_pp2": [1],
    "gpt_pp2_tp2_dp2": [1],
    "llama_pp2_tp2_dp2": [1],
    "moe_ep2_dp4": [1, 2],
    "moe_ep2_ep4_dp4": [1, 2],
}


def files_of(folder: Path, *endings: str) -> dict[str, bytes]:
    """The files below a folder whose names end in one of these."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(endings))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class Laws(ProgramTest):
    """Every element is where it was, whichever way it went."""

    def to(self, source: Path, name: str, strategy: str, case: str) -> Path:
        """Converts to a folder of this name."""
        out = self.folder / name
        spec = ["--spec", SPEC_OF[case]] if case in SPEC_OF else []
        result = self.run_program("ucprun", "convert", source, out, "--to", strategy, *spec)
        self.assertEqual(result.returncode, 0, f"{case} to {strategy} (seed {SEED}): {result.stderr}")
        return out

    def strategy(self, case: str, choose: random.Random, is_last: bool) -> str:
        """Any that the model can have, in the source's type. A chosen size of sub-groups stays in `ds_config`, and so
        it is chosen last."""
        # Without a spec, what was put onto one stage stays there.
        pp, tp = choose.choice(FIXTURES[case]) if case in SPEC_OF or not is_last else FIXTURES[case][0]
        zero = choose.choice(STAGES.get(case, [1, 2, 3]))
        dp = choose.choice([1, 2, 4, 8])
        options = f"pp={pp},tp={tp},dp={dp},zero={zero}"
        if zero in (1, 2):
            options += ",optimizer=zero"
        if case.startswith("moe"):
            ep = choose.choice([degree for degree in (1, 2, 4) if degree <= dp])
            options += f",ep={ep},data_before_experts={choose.choice(['true', 'false'])}"
        if zero in (1, 2) and (pp, tp) == (1, 1):
            options += f",round_robin={choose.choice(['true', 'false'])},alignment={choose.choice(['true', 'false'])}"
        if zero == 3 and is_last:
            options += f",sub_group_size={choose.choice([500, 2000, 1000000000])}"
        return "deepspeed:" + options

    def test_two_hops_are_one(self) -> None:
        """A to B to C is A to C, in every byte but what other ranks do not take over; and B tells the same as A."""
        print(f"seed {SEED}")
        choose = random.Random(SEED)
        for case in FIXTURES:
            with self.subTest(case=case):
                source = self.checkpoint(case)
                first, second = self.strategy(case, choose, False), self.strategy(case, choose, True)
                hop = self.to(source, f"{case}-1", first, case)
                there = self.to(hop, f"{case}-2", second, case)
                straight = self.to(source, f"{case}-3", second, case)
                endings = ("_optim_states.pt", "latest") + (("_states.pt",) if case not in SPEC_OF else ())
                self.assertEqual(files_of(there, *endings), files_of(straight, *endings), f"{first}, then {second}")
                told = self.to(hop, f"{case}-4", "universal", case)
                truth = self.to(source, f"{case}-5", "universal", case)
                parameters = ("fp32.pt", "exp_avg.pt", "exp_avg_sq.pt", "momentum_buffer.pt", "step.pt")
                self.assertEqual(files_of(told, *parameters), files_of(truth, *parameters), first)
                self.assertGreater(len(files_of(told, *parameters)), 0)

    def test_from_universal_is_from_native(self) -> None:
        """The universal folder in between changes no partition and no layer, and remembers which stages had them."""
        for i, (case, strategy) in enumerate(
            (
                ("zero1_dp4", "dp=2,zero=2"),
                ("zero1_dp4", "dp=2,zero=3"),
                ("pipeline_pp2", "dp=2,zero=1"),
                ("pipeline_pp2", "pp=2,dp=1,zero=1"),  # 4+3 layers, where DeepSpeed's own choice would be 3+3.
                ("moe_pp2_ep2_dp4", "pp=2,dp=2,ep=2,zero=1"),
                ("llama_pp2_tp2_dp2", "pp=2,tp=1,dp=2,zero=1"),
            )
        ):
            with self.subTest(case=case, strategy=strategy):
                source = SOURCE / "tests" / "fixtures" / case / "checkpoint"
                folder = self.to(source, f"{i}-universal", "universal", case)
                ours = self.to(folder, f"{i}-a", f"deepspeed:{strategy}", case)
                straight = self.to(source, f"{i}-b", f"deepspeed:{strategy}", case)
                self.assertEqual(files_of(ours, ".pt"), files_of(straight, ".pt"))

    def test_safetensors_remember_stages(self) -> None:
        """With all states they are a folder of whole tensors as well."""
        source = self.checkpoint("pipeline_pp2")
        folder = self.to(source, "weights", "safetensors:states=all", "pipeline_pp2")
        ours, straight = (
            self.to(place, name, "deepspeed:pp=2,dp=1,zero=1", "pipeline_pp2")
            for place, name in ((folder, "ours"), (source, "straight"))
        )
        self.assertEqual(files_of(ours, ".pt"), files_of(straight, ".pt"))

    def test_same_ranks_are_the_same_files(self) -> None:
        """Names and number of files are those of the engine."""
        for case, strategy in (
            ("zero1_dp4", "deepspeed:dp=4"),
            ("gpt_pp2_tp2_dp2", "deepspeed:pp=2,tp=2,dp=2"),
            ("pipeline_pp2", "deepspeed:pp=2,dp=2"),
            ("zero1_dp2", "deepspeed:dp=2"),
        ):
            source = self.checkpoint(case)
            ours = self.to(source, case + "-ours", strategy, case)
            self.assertEqual(all_files_of(source).keys(), all_files_of(ours).keys())

    def test_one_manifest_whichever_way(self) -> None:
        """The number of threads, and whether there was a plan file, say nothing about what is written."""
        source = self.checkpoint("zero2_dp2")
        to = ("--to", "deepspeed:dp=4,zero=1")
        manifests = []
        for threads in (1, 4):
            out = self.folder / f"threads-{threads}"
            result = self.run_program("ucprun", "convert", source, out, *to, "--threads", threads)
            self.assertEqual(result.returncode, 0, result.stderr)
            manifests.append((out / "ucp_manifest.json").read_bytes())
        plan = self.folder / "a.plan"
        result = self.run_program("ucpc", "plan", "--from", source, *to, "-o", plan)
        self.assertEqual(result.returncode, 0, result.stderr)
        out = self.folder / "from-plan"
        result = self.run_program("ucprun", "run", plan, out, "--from", source)
        self.assertEqual(result.returncode, 0, result.stderr)
        manifests.append((out / "ucp_manifest.json").read_bytes())
        self.assertEqual(manifests[1:], manifests[:1] * 2)


class Refusals(ProgramTest):
    """One sentence, and nothing is left."""

    def refuse(self, case: str, strategy: str, code: int, *words: str) -> None:
        """Targets that a fixture cannot become."""
        source = self.folder / case
        source = source if source.exists() else self.checkpoint(case)
        result = self.run_program("ucprun", "convert", source, self.out, "--to", strategy)
        self.assert_refused(result, code, *words)

    def test_settings_that_make_no_sense(self) -> None:
        """Named, with what there is."""
        self.refuse("zero1_dp2", "deepspeed:zero=4", 1, "`zero`", "from 0 to 3", "`4`")
        self.refuse("pipeline_pp2", "deepspeed:pp=2,dp=2,zero=3", 2, "zero=3 in a pipeline", "stages 0 and 1")
        self.refuse("pipeline_pp2", "deepspeed:pp=2,dp=2,zero=0", 2, "zero=0 with dtype=bf16", "fails to load it")
        self.refuse("zero1_dp2", "deepspeed:zero=0,optimizer=bf16", 1, "`optimizer=bf16`", "fused or unfused")
        self.refuse("zero1_dp2", "deepspeed:zero=0,dtype=fp32,optimizer=fused", 1, "`optimizer=fused`", "dtype=fp32")
        self.refuse("zero1_dp2", "deepspeed:optimizer=fused", 1, "`optimizer=fused`", "zero=0 only")
        self.refuse("zero1_dp2", "deepspeed:sub_group_size=10", 1, "`sub_group_size`", "zero=3 only")
        self.refuse("zero1_dp2", "deepspeed:zero=3,round_robin=true", 1, "`round_robin=true`", "zero=3")
        self.refuse("zero1_dp2", "deepspeed:dtype=int8", 1, "`dtype`", "fp32, fp16 or bf16", "`int8`")
        self.refuse("zero1_dp2", "deepspeed:optimizer=bf16", 1, "`optimizer=bf16`", "zero=1 and dtype=bf16")
        self.refuse("zero1_dp2", "deepspeed:roundrobin=true", 1, "`roundrobin`", "round_robin")
        self.refuse("zero1_dp2", "deepspeed:cp=2", 2, "`cp=2`", "pp, tp, dp, sp and ep")
        self.refuse("pipeline_pp2", "deepspeed:pp=2,sp=2", 2, "`pp=2,sp=2`", "no pipelines with sequence-parallel")
        self.refuse("moe_ep2_dp4", "deepspeed:ep=2,dp=2,sp=2", 2, "`ep=2,sp=2`", "no groups of experts")
        self.refuse("zero1_dp2", "deepspeed:ep=2,dp=2", 1, "ep=2", "no experts")
        self.refuse("zero1_dp2", "universal:ep=2", 1, "ep=2", "no experts")
        self.refuse("moe_ep2_dp4", "deepspeed:ep=2,dp=3", 1, "ep=2", "3 data-parallel ranks do not divide")
        self.refuse("moe_ep2_dp4", "deepspeed:ep=2,edp=4,dp=4", 1, "`edp=4`", "of 4 data-parallel ranks, 2 have")
        self.refuse("moe_ep2_dp4", "deepspeed:ep=3,dp=6", 1, "ep=3", "the 4 experts of `blocks.1.moe")
        self.refuse("moe_ep2_dp4", "universal:ep=3", 1, "ep=3", "the 4 experts of `blocks.1.moe")
        self.refuse("moe_ep2_dp4", "deepspeed:dp=4,zero=3", 2, "zero")
        self.refuse("moe_residual_zero2", "universal:ep=2", 2, "ep=2", "`blocks.1.moe", "not trained")
        self.refuse("pipeline_pp2", "deepspeed:pp=2,interleave=2", 2, "`interleave=2`", "one chunk of layers")
        self.refuse("zero1_dp2", "deepspeed:tp=2", 1, "tp=2", "--spec")
        self.refuse("bf16_optimizer_dp2", "deepspeed:dp=2,alignment=true", 1, "`alignment=true`", "BF16_Optimizer")

    def test_stages_that_nothing_tells(self) -> None:
        """Only a pipeline has stages, and only a spec says how they are cut otherwise."""
        self.refuse("zero1_dp2", "deepspeed:pp=2", 1, "pp=2", "1 pipeline stage,", "--spec")
        self.refuse("pipeline_pp2", "deepspeed:pp=4", 1, "layer `3` on stage 0", "partition=uniform", "pp=8+8")
        self.refuse("pipeline_pp2", "deepspeed:pp=4,partition=uniform", 1, "no file is not known", "how many layers")
        self.refuse("pipeline_pp2", "deepspeed:pp=3+2", 1, "pp=3+2 has 5 layers", "layer 5")
        self.refuse("pipeline_pp2", "deepspeed:pp=4+3,partition=uniform", 1, "(4+3) and `partition`", "leave one out")
        self.refuse("pipeline_pp2", "deepspeed:pp=4,partition=type", 1, "`partition`", "parameters or uniform")

    def test_other_stages_than_a_universal_folder_remembers(self) -> None:
        """They are not dealt in a way that the source's own were not."""
        source = self.checkpoint("pipeline_pp2")
        folder = self.folder / "universal"
        self.assertEqual(self.run_program("ucprun", "convert", source, folder, "--to", "universal").returncode, 0)
        result = self.run_program("ucprun", "convert", folder, self.out, "--to", "deepspeed:pp=4")
        self.assert_refused(result, 1, "layer `3` on stage 0", "partition=uniform", "pp=8+8")

    def test_a_pipeline_whose_layer_files_are_not_known(self) -> None:
        """DeepSpeed's universal folder does not list them."""
        source = self.checkpoint("pipeline_pp2")
        folder = self.folder / "universal"
        self.assertEqual(self.run_program("ucprun", "convert", source, folder, "--to", "universal").returncode, 0)
        self.rewrite(next(folder.rglob("mp_rank_00_model_states.pt")), b"ucp_pipeline", b"ucp_otherwise"[:12])
        result = self.run_program("ucprun", "convert", folder, self.out, "--to", "deepspeed:dp=2")
        self.assert_refused(result, 2, "does not say which layers have files")

    def rewrite(self, file: Path, old: bytes, new: bytes) -> None:
        """Replaces bytes of a `.pt` file, with checksums that are right."""
        with zipfile.ZipFile(file) as archive:
            records = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in records.items():
                archive.writestr(name, data.replace(old, new))

    def test_a_tag_that_is_no_folder(self) -> None:
        """It would be written elsewhere."""
        source = self.checkpoint("zero1_dp2")
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "deepspeed:dp=1", "--tag", "../there")
        self.assert_refused(result, 1, "`../there`", "--tag")
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "deepspeed:dp=1", "--tag", "there")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.out / "latest").read_text(), "there")

    def test_foreign_objects_are_left_out(self) -> None:
        """Loading them would run the code of their module."""
        source = self.checkpoint("gpt_pp1_tp1_dp2")
        file = next(source.rglob("mp_rank_00_model_states.pt"))
        self.rewrite(file, b"cargparse\n", b"cstranger\n")
        arguments = ("convert", source, self.out, "--to", "deepspeed:dp=2")
        for further in ((), ("--keep-opaque", "stranger.Namespace", "--force")):
            result = self.run_program("ucprun", *arguments, *further)
            self.assertEqual(result.returncode, 0, result.stderr)
            written = b"".join(files_of(self.out, "model_states.pt").values())
            self.assertEqual(b"stranger" in written, bool(further))
            self.assertEqual("would run `stranger.Namespace" in result.stderr, not further)


if __name__ == "__main__":
    unittest.main()
