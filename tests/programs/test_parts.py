"""Destinations of which each node gets a part: the files that its ranks of the job open, and a manifest that says which
part of how many it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from nodes import NodeTest
from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT

from programs import GPT_SPEC, MANIFEST, PROGRAMS, all_files

TO_DP4 = ("--to", "deepspeed:dp=4,zero=1")
TO_DP3 = ("--to", "deepspeed:dp=3,zero=1")
IN_PARTS = ("--node-local", "destination")
FROM_PARTS = ("--node-local", "source")


def without_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """The checkpoint proper."""
    return {name: content for name, content in files.items() if name != MANIFEST}


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class DestinationOfNodes(NodeTest):
    """Is what one process writes, dealt to the nodes."""

    def alone(self, source: Path, *words: object) -> dict[str, bytes]:
        """The output of one process."""
        result = self.run_program("ucprun", "convert", source, "alone", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return all_files(self.folder / "alone")

    def in_parts(self, source: object, ranks: list[int], *words: object) -> list[dict[str, bytes]]:
        """The files of each node, and the report."""
        result = self.mpirun(ranks, "convert", source, "out", *words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.report = json.loads(result.stdout)
        for node in range(len(ranks)):
            left = [path.name for path in (self.folder / f"node-{node}").iterdir() if path.name.startswith(".")]
            self.assertEqual(left, [])
        return [self.part(node) for node in range(len(ranks))]

    def assert_dealt(self, parts: list[dict[str, bytes]], whole: dict[str, bytes], node_of_rank: list[int]) -> None:
        """An optimizer's file is where its rank is, weights are wherever there are ranks, `latest` is everywhere."""
        for node, part in enumerate(parts):
            expected = {}
            for name, content in without_manifest(whole).items():
                rank = re.search(r"zero_pp_rank_(\d+)_", name)
                is_opened = node in node_of_rank if rank is None else node_of_rank[int(rank.group(1))] == node
                if is_opened or name == "latest":
                    expected[name] = content
            self.assertEqual(without_manifest(part), expected, f"node {node}")

    def assert_manifests(self, parts: list[dict[str, bytes]], whole: dict[str, bytes]) -> None:
        """They say the same but for the number of the part: digests of files and tensors as of a whole one."""
        alone = json.loads(whole[MANIFEST])
        first = json.loads(parts[0][MANIFEST])
        for number, part in enumerate(parts, 1):
            manifest = json.loads(part[MANIFEST])
            self.assertEqual((manifest["part"], manifest["parts"]), (number, len(parts)))
            self.assertEqual(manifest | {"part": 1}, first)
            self.assertEqual(manifest["states"], alone["states"])
            self.assertEqual(len(part[MANIFEST]), len(parts[0][MANIFEST]))
            listed = {file["path"] for file in manifest["files"] if number in file.get("parts", [number])}
            self.assertEqual(listed, set(without_manifest(part)))
            without_parts = [{key: file[key] for key in ("path", "bytes", "digest")} for file in manifest["files"]]
            self.assertEqual(without_parts, alone["files"])

    def test_each_node_gets_what_its_ranks_open(self) -> None:
        """Whatever ranks convert; ranks of the job that do not come out even; more nodes than ranks of the job."""
        source = self.checkpoint("zero2_dp4")
        for to, ranks, node_of_rank in (
            (TO_DP4, [1, 1], [0, 0, 1, 1]),
            (TO_DP3, [2, 1], [0, 0, 1]),
            (TO_DP4, [1, 3, 2], [0, 0, 1, 2]),
            (TO_DP3, [1, 1, 1, 1], [0, 1, 2]),
        ):
            whole = self.alone(source, *to)
            self.make_nodes(len(ranks))
            parts = self.in_parts(source, ranks, *to, *IN_PARTS)
            self.assert_dealt(parts, whole, node_of_rank)
            self.assert_manifests(parts, whole)
            bytes_of_parts = [sum(map(len, without_manifest(part).values())) for part in parts]
            self.assertEqual([part["bytes"] for part in self.report["parts"]], bytes_of_parts)
            self.assertLessEqual(self.report["bytes_written"], sum(bytes_of_parts))
            for folder in ("alone", *(f"node-{node}" for node in range(len(ranks)))):
                shutil.rmtree(self.folder / folder)

    def test_nodes_that_see_one_folder(self) -> None:
        """On another system, so that neither device nor inode says it is the same."""
        other = self.folder / "other-system"
        other.write_text("00000000-0000-0000-0000-000000000000\n")
        as_other = (
            "unshare",
            "-m",
            "sh",
            "-c",
            f'mount --bind {other} /proc/sys/kernel/random/boot_id && exec "$@"',
            "sh",
        )
        if (
            shutil.which("unshare") is None
            or subprocess.run([*as_other, "true"], check=False, capture_output=True).returncode != 0
        ):
            self.skipTest("this process may not mount")
        source = self.checkpoint("zero1_dp2")
        program = (PROGRAMS / "ucprun", "convert", source, "out", *TO_DP3, *IN_PARTS)
        words = ("mpirun", "-n", "2", *program, ":", "-n", "1", *as_other, *program)
        (self.folder / ".out.ucp-node").write_text("of a run that was killed")
        result = subprocess.run(
            [*map(str, words)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=ENVIRONMENT,
        )
        self.assert_all_refused(
            result,
            1,
            "are on different nodes and see the same folder `.`; leave out --node-local "
            "destination, or name a folder on a disk that each node has for itself",
        )
        self.assertRegex(result.stderr, "rank 0 and rank 2|rank 2 and rank 0")

    def test_stages(self) -> None:
        """The second node has the second stage, and none of the first one's layers."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        words = ("--to", "deepspeed:pp=2,tp=1,dp=2,zero=1", "--spec", GPT_SPEC)
        whole = self.alone(source, *words)
        self.make_nodes(2)
        parts = [set(part) for part in self.in_parts(source, [1, 2], *words, *IN_PARTS)]
        self.assertEqual(parts[0] | parts[1], set(whole))
        layers = [{name for name in part if "layer_" in name} for part in parts]
        self.assertTrue(layers[0] - layers[1])
        self.assertTrue(layers[1] - layers[0])
        self.assertTrue(any("latest" in name for name in parts[1]))

    def test_a_plan_file_is_dealt_alike(self) -> None:
        """It says who opens what, so `run` gives each node what `convert` gives it, with the same manifest."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        to = ("--to", "deepspeed:pp=2,tp=1,dp=2,zero=1")
        self.make_nodes(2)
        parts = self.in_parts(source, [1, 2], *to, "--spec", GPT_SPEC, *IN_PARTS)
        self.assertNotEqual(set(parts[0]), set(parts[1]))
        plan = self.folder / "a.plan"
        result = self.run_program("ucpc", "plan", GPT_SPEC, "--from", source, *to, "-o", plan)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.mpirun([1, 2], "run", plan, "from-plan", "--from", source, *IN_PARTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([self.part(node, "from-plan") for node in range(2)], parts)
        written = re.findall(
            r"^write (\S+) \d+ bytes, for ranks? ([\d, -]+) of 4$",
            self.run_program("ucpc", "dump", plan).stdout,
            re.MULTILINE,
        )
        self.assertEqual(
            {name for name, ranks in written if ranks in ("0-1", "0", "1")},
            {name for name in parts[0] if name not in parts[1]},
        )  # Those of the first stage alone.

    def test_one_folder_is_no_part(self) -> None:
        """Where all ranks see the same folder it is an ordinary destination."""
        source = self.checkpoint("zero1_dp2")
        whole = self.alone(source, *TO_DP3)
        self.make_nodes(1)
        self.assertEqual(self.in_parts(source, [3], *TO_DP3, *IN_PARTS), [whole])

    def test_what_every_rank_opens_is_everywhere(self) -> None:
        """A universal checkpoint; each part of it is all, and is read alone."""
        source = self.checkpoint("zero1_dp2")
        whole = self.alone(source, "--to", "universal")
        self.make_nodes(2)
        for part in self.in_parts(source, [1, 1], "--to", "universal", *IN_PARTS):
            self.assertEqual(without_manifest(part), without_manifest(whole))
        result = self.run_program("ucprun", "verify", "node-1/out", "--same", source)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_source_and_destination(self) -> None:
        """Both in parts, said in one word or in two."""
        whole = self.checkpoint("zero2_dp4")
        expected = self.alone(whole, *TO_DP3)
        for words in (("--node-local", "source,destination"), (*FROM_PARTS, *IN_PARTS)):
            self.spread(whole, 2, lambda number, _: [number % 2])
            parts = self.in_parts("checkpoints", [2, 1], *TO_DP3, *words)
            self.assert_dealt(parts, expected, [0, 0, 1])
            self.assertGreater(self.report["bytes_exchanged"], 0)
            for node in range(2):
                shutil.rmtree(self.folder / f"node-{node}")

    def made(self, ranks: list[int], *words: object) -> dict[str, bytes]:
        """A destination in parts; returns what one process makes of the same."""
        source = self.checkpoint("zero2_dp4")
        whole = self.alone(source, *words)
        self.make_nodes(len(ranks))
        self.in_parts(source, ranks, *words, *IN_PARTS)
        return whole

    def test_parts_are_a_source(self) -> None:
        """A destination in parts is converted from parts, verified and shown."""
        self.made([1, 1], *TO_DP4)
        expected = self.run_program("ucprun", "convert", "alone", "again", "--to", "universal")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        result = self.mpirun([1, 2], "convert", "out", self.out, "--to", "universal", *FROM_PARTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(without_manifest(all_files(self.out)), without_manifest(all_files(self.folder / "again")))
        result = self.mpirun([2, 1], "verify", "out", *FROM_PARTS)
        self.assertEqual((result.returncode, result.stdout.count("in 2 parts")), (0, 1), result.stderr)
        self.assertIn(": as in the manifest", result.stdout)
        alone = self.run_program("ucprun", "inspect", "alone", "--json")
        shown = self.mpirun([1, 1], "inspect", "out", "--json", *FROM_PARTS)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(json.loads(shown.stdout)["tensors"], json.loads(alone.stdout)["tensors"])

    def test_damage_of_a_part(self) -> None:
        """Is found on its node, and by one part alone."""
        self.made([1, 1], *TO_DP4)
        path = next((self.folder / "node-1" / "out").glob("*/*zero_pp_rank_2_*"))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        result = self.mpirun([2, 2], "verify", "out", *FROM_PARTS)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(f"different: part 2: `{path.parent.name}/{path.name}` is not what was written", result.stderr)
        for node, code in ((0, 0), (1, 3)):
            alone = self.run_program("ucprun", "verify", f"node-{node}/out")
            self.assertEqual((alone.returncode, alone.stdout.count(f"part {node + 1} of 2 (run ")), (code, 1))

    def test_a_part_is_not_taken_for_the_whole(self) -> None:
        """By whoever would read it; copied into one folder the parts are the whole."""
        whole = self.made([1, 1], *TO_DP4)
        part = "node-0/out"
        for words in (("convert", part, "elsewhere", "--to", "universal"), ("inspect", part), ("diff", part, "alone"),
                      ("load", part, "--to", "universal"), ("verify", part, "--same", "alone"), ("diff", "alone", part),
                      ("trace", part, "embed.weight[0,0]")):  # fmt: skip
            result = self.run_program("ucprun", *words)
            self.assertEqual(result.returncode, 2, f"{words}: {result.stderr}")
            self.assertIn("is part 1 of 2", result.stderr)
        shutil.copytree(self.folder / "node-1" / "out", self.folder / part, dirs_exist_ok=True)
        self.assertEqual(without_manifest(self.part(0)), without_manifest(whole))
        result = self.run_program("ucprun", "verify", part, "--same", "alone")
        self.assertEqual((result.returncode, result.stdout.count("part 2 of 2")), (0, 0), result.stderr)

    def test_parts_that_do_not_belong_together(self) -> None:
        """One is missing; one is of another conversion; one node has an older checkpoint there."""
        self.made([1, 1], *TO_DP4)
        read = ("convert", "out", self.out, "--to", "universal", *FROM_PARTS)
        kept = self.folder / "kept"
        (self.folder / "node-1" / "out").rename(kept)
        self.assert_all_refused(self.mpirun([1, 1], *read), 2, "part 2 of 2 is at none of the 2 ranks")
        result = self.mpirun([1, 1], "verify", "out", *FROM_PARTS)
        self.assert_one_error(result, 2, "part 2 of 2 is at none of the 2 ranks")
        shutil.copytree(self.folder / "alone", self.folder / "node-1" / "out")
        self.assert_all_refused(
            self.mpirun([1, 1], *read),
            2,
            "rank 0 sees part 1 of 2 of the run ",
            "rank 1 a checkpoint that is not in parts",
        )
        shutil.rmtree(self.folder / "node-1" / "out")
        manifest = kept / MANIFEST
        text = manifest.read_text()
        run = json.loads(text)["run"]
        manifest.write_text(text.replace(run, run[::-1]))
        shutil.copytree(kept, self.folder / "node-1" / "out")
        self.assert_all_refused(self.mpirun([1, 1], *read), 2, f"run {run} in", f"of the run {run[::-1]}")

    def test_an_incomplete_set_is_finished(self) -> None:
        """As a crash between two renames leaves it; nothing of the part that is there is written again."""
        self.made([2, 1], *TO_DP4)
        expected = [self.part(node) for node in range(2)]
        words = ("convert", self.folder / "zero2_dp4", "out", *TO_DP4, *IN_PARTS)
        for lost in (1, 0):
            shutil.rmtree(self.folder / f"node-{lost}" / "out")
            kept = (self.folder / f"node-{1 - lost}" / "out").stat().st_ino
            self.assert_one_error(self.mpirun([2, 1], *words), 1, f"rank {0 if lost else 2} of 3: `out` exists")
            result = self.mpirun([1, 2], *words, "--resume", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual([self.part(node) for node in range(2)], expected)
            self.assertEqual((self.folder / f"node-{1 - lost}" / "out").stat().st_ino, kept)
            report = json.loads(result.stdout)
            self.assertEqual([part["was_complete"] for part in report["parts"]], [lost == 1, lost == 0])
            self.assertLessEqual(report["bytes_written"], report["parts"][lost]["bytes"])
        again = self.mpirun([1, 1], *words, "--resume")
        self.assertEqual((again.returncode, again.stdout.count("is complete already")), (0, 1), again.stderr)
        swapped = self.mpirun([1, 1], *words, "--force")
        self.assertEqual(swapped.returncode, 0, swapped.stderr)
        self.assertEqual([self.part(node) for node in range(2)], expected)

    def test_a_source_that_changed_before_the_set_is_finished(self) -> None:
        """Is noticed by what the complete part says: the same sizes and headers, and other elements."""
        source = self.checkpoint("zero2_dp4")
        self.make_nodes(2)
        words = ("convert", source, "out", *TO_DP4, *IN_PARTS, "--ignore-crc", "--replicas=trust")
        self.assertEqual(self.mpirun([1, 1], *words).returncode, 0)
        shutil.rmtree(self.folder / "node-1" / "out")
        for path in source.glob("*/*optim_states.pt"):  # The weights that both parts have are made of these masters.
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(bytes(data))
        result = self.mpirun([1, 1], *words, "--resume")
        self.assert_one_error(result, 2, "the source was changed since; convert all of it again with --force")
        self.assertFalse((self.folder / "node-1" / "out").exists())

    def test_parts_made_of_different_data(self) -> None:
        """As a crash between two renames of a second run leaves them: neither finished nor read together."""
        source = self.checkpoint("zero2_dp4")
        self.make_nodes(2)
        words = ("convert", source, "out", *TO_DP4, *IN_PARTS, "--ignore-crc", "--replicas=trust")
        self.assertEqual(self.mpirun([1, 1], *words).returncode, 0)
        (self.folder / "node-1" / "out").rename(self.folder / "first")
        for path in source.glob("*/*optim_states.pt"):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(bytes(data))
        (self.folder / "node-0" / "out").rename(self.folder / "of-first")
        self.assertEqual(self.mpirun([1, 1], *words).returncode, 0)
        shutil.rmtree(self.folder / "node-1" / "out")
        (self.folder / "first").rename(self.folder / "node-1" / "out")
        result = self.mpirun([1, 1], *words, "--resume")
        self.assert_one_error(result, 2, "that are complete were made of different data")
        read = ("convert", "out", self.out, "--to", "universal", *FROM_PARTS)
        self.assert_all_refused(self.mpirun([1, 1], *read), 2, "the source was changed between them")

    def test_verify_of_a_part_by_several_ranks(self) -> None:
        """Without --node-local: what rank 0 sees is what all of them go by."""
        self.made([1, 1], *TO_DP4)
        for folder in ("node-0", "node-1"):
            self.assertTrue((self.folder / folder / "out").is_dir())
        kept = self.folder / "node-1" / "out"
        for name in [path for path in (self.folder / "node-0" / "out").rglob("*") if path.is_file()]:
            other = kept / name.relative_to(self.folder / "node-0" / "out")
            if not other.exists():
                shutil.copyfile(name, other)  # Rank 1 has all files, and rank 0 has not.
        result = self.mpirun([1, 1], "verify", "out", "--synth")
        self.assert_one_error(result, 2, "is part 1 of 2")
        result = self.mpirun([1, 1], "verify", "out")
        self.assertEqual((result.returncode, result.stdout.count("its files alone")), (0, 1), result.stderr)

    def test_words(self) -> None:
        """The words that the option takes, and where a node has no folder for its part."""
        source = self.checkpoint("zero1_dp2")
        self.make_nodes(2)
        result = self.mpirun([1, 1], "convert", source, "out", *TO_DP3, "--node-local", "target")
        self.assert_one_error(result, 1, "takes `source`, `destination` or both with a comma, not `target`")
        result = self.mpirun([1, 1], "verify", source, *IN_PARTS)
        self.assert_one_error(result, 1, "--node-local takes `source`, not `destination`")
        (self.folder / "node-0" / "there").mkdir()
        result = self.mpirun([1, 1], "convert", source, "there/out", *TO_DP3, *IN_PARTS)
        self.assert_one_error(result, 1, "rank 1 of 2: `there/out` cannot be written: there is no folder `there`")
        alone = self.run_program("ucprun", "convert", source, "out", *TO_DP3, *IN_PARTS)
        self.assert_refused(alone, 1, "--node-local is for several ranks, and here is one")


if __name__ == "__main__":
    unittest.main()
