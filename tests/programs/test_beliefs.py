"""Ranks that contradict each other, and which one is believed: `--prefer-rank`, on real checkpoints with damage."""

from __future__ import annotations

import json
import re
import struct
import unittest
import zipfile
from pathlib import Path

from test_damage import rewrite

from programs import GPT_SPEC, ProgramTest, files_of

STATE = "exp_avg"
NORM = "3.input_layernorm.weight"
SPEC = ("--spec", GPT_SPEC)


def data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the data of a record begins."""
    header = path.read_bytes()[info.header_offset : info.header_offset + 30]
    name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
    return info.header_offset + 30 + name_bytes + extra_bytes


def set_element(path: Path, record: int, element: int, value: float) -> None:
    """Changes a float32 in the record whose data begins there, and its checksum with it."""
    with zipfile.ZipFile(path) as archive:
        names = {data_offset(path, info): info.filename for info in archive.infolist()}

    def change(name: str, content: bytes) -> bytes:
        if name != names[record]:
            return content
        return content[: 4 * element] + struct.pack("<f", value) + content[4 * element + 4 :]

    rewrite(path, change)


def set_number(path: Path, key: str, old: int, new: int) -> None:
    """Changes a small integer under a key of the pickle."""
    found = 0

    def change(name: str, content: bytes) -> bytes:
        nonlocal found
        if not name.endswith("/data.pkl"):
            return content
        pattern = re.escape(key.encode()) + rb"(q.|r....)K" + re.escape(bytes([old]))
        changed, found = re.subn(pattern, lambda match: match[0][:-1] + bytes([new]), content, flags=re.DOTALL)
        return changed

    rewrite(path, change)
    assert found == 1, f"{key} stands {found} times in {path}"


class Copies(ProgramTest):
    """A layer norm that both tensor-parallel ranks hold, and that differs in one element of one state."""

    def setUp(self) -> None:
        """The element is found by the plan for the sound checkpoint, whose conversion is the expected result."""
        super().setUp()
        self.source = self.checkpoint("gpt_pp2_tp2_dp2")
        self.sound = self.folder / "sound"
        result = self.run_program("ucprun", "convert", self.source, self.sound, "--to", "universal", *SPEC)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.run_program("ucpc", "plan", GPT_SPEC, "--from", self.source, "--to", "universal", "-o", "sound.plan")
        dump = self.run_program("ucpc", "dump", "sound.plan").stdout
        step = re.search(rf"^compare {re.escape(NORM)} {STATE} float32: (\S+)\+(\d+)\[(\d+)\.\.\d+\] -> ", dump, re.M)
        assert step is not None, dump
        self.changed = self.source / "global_step4" / step[1]
        set_element(self.changed, int(step[2]), int(step[3]) + 5, 0.25)

    def moments(self, out: Path) -> list[float]:
        """The state of the layer norm that a conversion wrote."""
        path = out / "global_step4_universal" / "zero" / NORM / f"{STATE}.pt"
        with zipfile.ZipFile(path) as archive:
            data = next(archive.read(name) for name in archive.namelist() if name.endswith("/data/0"))
        return list(struct.unpack(f"<{len(data) // 4}f", data))

    def test_refused_without_a_preference(self) -> None:
        """Both files, both values, and what can be said."""
        self.assert_refused(
            self.convert(self.source, *SPEC),
            2,
            f"element [5] of `{STATE}` of tensor `{NORM}`",
            "two values",
            "0.25",
            "mp_rank_00",
            self.changed.name,
            "--prefer-rank tp=0 (or tp=1) says which of them counts",
        )

    def test_the_rank_that_is_believed_counts(self) -> None:
        """One side gives what the sound checkpoint gave, the other one the changed element."""
        result = self.convert(self.source, *SPEC, "--prefer-rank", "tp=0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.out), files_of(self.sound))
        self.assertIn(f"--prefer-rank tp=0: element [5] of `{STATE}` of tensor `{NORM}` is ", result.stderr)
        result = self.convert(self.source, *SPEC, "--prefer-rank", "tp=1", "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        differs = [
            i for i, (a, b) in enumerate(zip(self.moments(self.out), self.moments(self.sound), strict=True)) if a != b
        ]
        self.assertEqual(differs, [5])
        self.assertEqual(self.moments(self.out)[5], 0.25)
        others = {path for path, content in files_of(self.out).items() if content != files_of(self.sound)[path]}
        self.assertEqual(others, {f"global_step4_universal/zero/{NORM}/{STATE}.pt"})

    def test_a_load_is_checked_at_every_rank(self) -> None:
        """Also at a rank that holds a copy of another one's part, and loads alone."""
        for rank in range(2):
            with self.subTest(rank=rank):
                loaded = self.run_program(
                    "ucprun",
                    "load",
                    self.source,
                    "--to",
                    "deepspeed:pp=1,tp=2,dp=1,zero=1",
                    "--rank",
                    rank,
                    "--check",
                    *SPEC,
                )
                self.assert_refused(loaded, 2, f"element [5] of `{STATE}` of tensor `{NORM}`", "two values")

    def test_the_report_has_every_decision(self) -> None:
        """In JSON with both files and both values."""
        result = self.convert(self.source, *SPEC, "--prefer-rank", "tp=1", "--json")
        decisions = json.loads(result.stdout)["decisions"]
        self.assertEqual(len(decisions), 1, decisions)
        self.assertIn(f"element [5] of `{STATE}` of tensor `{NORM}`", decisions[0]["what"])
        self.assertEqual(decisions[0]["elements"], 1)
        self.assertTrue(decisions[0]["believed"]["file"].endswith(self.changed.name))
        self.assertIn("0.25", decisions[0]["believed"]["value"])
        self.assertIn("mp_rank_00", decisions[0]["overruled"]["file"])

    def test_a_plan_carries_it(self) -> None:
        """`ucpc plan` and `ucprun run` do what `convert` does."""
        planned = self.run_program(
            "ucpc",
            "plan",
            GPT_SPEC,
            "--from",
            self.source,
            "--to",
            "universal",
            "-o",
            "a.plan",
            "--prefer-rank",
            "tp=1",
        )
        self.assertEqual(planned.returncode, 0, planned.stderr)
        result = self.run_program("ucprun", "run", "a.plan", self.out, "--from", self.source)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.moments(self.out)[5], 0.25)
        self.assertIn("which is believed", result.stderr)

    def test_a_preference_that_does_not_decide(self) -> None:
        """Neither copy, or both of them."""
        for place in ("pp=1", "dp=0", "pp=0"):
            with self.subTest(place=place):
                self.assert_refused(self.convert(self.source, *SPEC, "--prefer-rank", place), 2, "two values")

    def test_a_native_target(self) -> None:
        """Weights of the rank that is not believed are not roundings of masters that are."""
        result = self.run_program(
            "ucprun",
            "convert",
            self.source,
            self.out,
            "--to",
            "deepspeed:pp=2,tp=1,dp=1,zero=1",
            *SPEC,
            "--prefer-rank",
            "tp=1",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"element [5] of `{STATE}` of tensor `{NORM}` is 0.25", result.stderr)


class Numbers(ProgramTest):
    """Single numbers of the headers."""

    def setUp(self) -> None:
        """One rank has counted another number of steps."""
        super().setUp()
        self.source = self.checkpoint("gpt_pp2_tp2_dp2")
        set_number(self.source / "global_step4" / "mp_rank_01_model_states.pt", "global_steps", 4, 3)

    def test_a_number_is_believed_too(self) -> None:
        """By `convert`, by a plan, and by what only looks."""
        refused = self.convert(self.source, *SPEC)
        self.assert_refused(
            refused,
            2,
            "`global_steps` is 4 in `mp_rank_00_model_states.pt`",
            "3 in `mp_rank_01_model_states.pt`",
            "--prefer-rank tp=0 (or tp=1)",
        )
        preferred = ("--prefer-rank", "pp=0,tp=1")
        note = (
            "--prefer-rank pp=0,tp=1: `global_steps` is 3 in `mp_rank_01_model_states.pt`, which is believed, and "
            "4 in `mp_rank_00_model_states.pt`"
        )
        result = self.convert(self.source, *SPEC, *preferred)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(note, result.stderr)
        planned = self.run_program(
            "ucpc", "plan", GPT_SPEC, "--from", self.source, "--to", "universal", "-o", "a.plan", *preferred
        )
        self.assertIn(note, planned.stdout)
        run = self.run_program("ucprun", "run", "a.plan", "planned", "--from", self.source)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(files_of(self.out), files_of(self.folder / "planned"))
        self.assertIn(note, self.run_program("ucprun", "inspect", self.source, *preferred).stdout)
        decided = json.loads(self.run_program("ucprun", "inspect", self.source, *preferred, "--json").stdout)
        self.assertEqual(
            [decision["believed"] for decision in decided["decisions"]],
            [{"file": "mp_rank_01_model_states.pt", "value": "3"}] * 3,
        )

    def test_of_a_universal_folder(self) -> None:
        """It also has a file for each model-parallel rank."""
        source = self.checkpoint("autotp_tp2_dp2")
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        tag = next(self.out.glob("*_universal"))
        set_number(tag / "mp_rank_01_model_states.pt", "global_steps", 4, 7)
        again = self.folder / "again"
        refused = self.run_program("ucprun", "convert", self.out, again, "--to", "universal")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("`global_steps` is 4 in `mp_rank_00_model_states.pt` and 7 in", refused.stderr)
        self.assertIn("--prefer-rank mp=0 (or mp=1)", refused.stderr)
        result = self.run_program("ucprun", "convert", self.out, again, "--to", "universal", "--prefer-rank", "mp=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("`global_steps` is 7 in `mp_rank_01_model_states.pt`, which is believed", result.stderr)

    def test_degrees_are_not_believed(self) -> None:
        """The entries on which the cut of the tensors depends."""
        set_number(self.source / "global_step4" / "mp_rank_01_model_states.pt", "tp_degree", 2, 4)
        self.assert_refused(
            self.convert(self.source, *SPEC, "--prefer-rank", "tp=0"),
            2,
            "`tp_degree`",
            "mp_rank_00_model_states.pt",
            "mp_rank_01_model_states.pt",
        )

    def test_preferences_that_make_no_sense(self) -> None:
        """An unknown axis, no number, and a rank that the source does not have."""
        for place in ("0", "tp", "tp=", "tp=-1", "xx=1", "tp=0,", "tp=0,tp=1", "=1"):
            with self.subTest(place=place):
                self.assert_refused(self.convert(self.source, *SPEC, f"--prefer-rank={place}"), 1, "--prefer-rank")
        sound = self.checkpoint("zero1_dp2")
        self.assert_refused(self.convert(sound, "--prefer-rank", "dp=2"), 1, "names dp=2", "pp=1 dp=2 tp=1")

    def test_nothing_to_decide(self) -> None:
        """Is said."""
        result = self.convert(self.checkpoint("zero1_dp2"), "--prefer-rank", "dp=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--prefer-rank decided nothing", result.stderr)


if __name__ == "__main__":
    unittest.main()
