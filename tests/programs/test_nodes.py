"""Checkpoints of which each node has a part, on a disk of its own: a folder of its own (nodes.py), or in one test a
mount."""

from __future__ import annotations

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from nodes import NodeTest
from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT, run_with_one_killed

from programs import PROGRAMS, all_files

TARGET = ("--to", "deepspeed:dp=3,zero=1")


def can_mount() -> bool:
    """May this process give others mounts of their own?"""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class SourceOfNodes(NodeTest):
    """Is read as one."""

    def convert_on(self, ranks_of_node: list[int], *options: object) -> subprocess.CompletedProcess[str]:
        """To a folder that all nodes see."""
        return self.mpirun(
            ranks_of_node, "convert", "checkpoints", self.out, *TARGET, "--node-local", "source", *options
        )

    def alone(self, whole: Path) -> dict[str, bytes]:
        """The output of a process that sees all."""
        result = self.run_program("ucprun", "convert", whole, "alone", *TARGET)
        self.assertEqual(result.returncode, 0, result.stderr)
        return all_files(self.folder / "alone")

    def test_the_same_bytes_wherever_the_files_are(self) -> None:
        """One file here, one there; some on several nodes; none on the first; several ranks on a node."""
        whole = self.checkpoint("zero2_dp4")
        expected = self.alone(whole)
        for ranks, nodes_of in (
            ([1, 1], lambda number, _: [number % 2]),
            ([1, 1, 1], lambda number, name: [1 + number % 2] if "optim" in name else [1, 2]),
            ([2, 3, 3], lambda number, _: [number % 3]),
        ):
            self.spread(whole, len(ranks), nodes_of)
            result = self.convert_on(ranks, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout)
            self.assertGreater(report["bytes_exchanged"], 0)
            self.assertLessEqual(report["bytes_exchanged"], report["bytes_copied"] + report["bytes_compared"] + 200_000)
            self.assertEqual(all_files(self.out), expected)
            shutil.rmtree(self.out)
            for node in range(len(ranks)):
                shutil.rmtree(self.folder / f"node-{node}")

    def test_a_plan_file(self) -> None:
        """Also `run`; and without the option the first node's message names the missing file."""
        whole = self.checkpoint("zero1_dp2")
        for program, *words in (
            ("ucpc", "plan", "--from", whole, "--to", "universal", "-o", "a.plan"),
            ("ucprun", "run", "a.plan", "alone", "--from", whole),
        ):
            self.assertEqual(self.run_program(program, *words).returncode, 0)
        self.spread(whole, 2, lambda number, _: [number % 2])
        words = ("run", self.folder / "a.plan", self.out, "--from", "checkpoints")
        result = self.mpirun([1, 1], *words, "--node-local", "source")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(all_files(self.out), all_files(self.folder / "alone"))
        shutil.rmtree(self.out)
        result = self.mpirun([1, 1], *words)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("ucprun: error: "), 1, result.stderr)

    @unittest.skipUnless(can_mount(), "needs the right to mount")
    def test_mounts_of_their_own(self) -> None:
        """The same absolute path on every node, and its own disk there."""
        whole = self.checkpoint("zero2_dp4")
        expected = self.alone(whole)
        self.spread(whole, 3, lambda number, _: [number % 3])
        disk = self.folder / "disk"
        disk.mkdir()
        script = (
            f'mount --bind "{self.folder}/node-$OMPI_COMM_WORLD_RANK" "{disk}" && '
            f'exec "{PROGRAMS}/ucprun" convert "{disk}/checkpoints" "{self.out}" {" ".join(TARGET)} '
            "--node-local source"
        )
        command = ["mpirun", "-n", "3", "unshare", "-m", "sh", "-c", script]
        result = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(all_files(self.out), expected)
        self.assertEqual(list(disk.iterdir()), [])

    def test_little_memory(self) -> None:
        """Memory that is set aside for others counts."""
        whole = self.checkpoint("zero2_dp4")
        self.spread(whole, 2, lambda number, _: [number % 2])
        result = self.convert_on([1, 1], "--memory", "64MiB", "--threads", "2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.convert_on([1, 1], "--memory", "24MiB", "--force")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("of memory is too little", result.stderr)

    def test_a_file_that_no_node_has(self) -> None:
        """Named like any missing file."""
        whole = self.checkpoint("zero2_dp4")
        lost = sorted(whole.glob("*/*optim_states.pt"))[1].name
        self.spread(whole, 2, lambda number, name: [] if name == lost else [number % 2])
        self.assert_all_refused(self.convert_on([1, 1]), 2, lost)

    def test_nodes_that_contradict_each_other(self) -> None:
        """Files of one name and another size."""
        whole = self.checkpoint("zero2_dp4")
        self.spread(whole, 3, lambda number, name: [1, 2] if "model_states" in name else [number % 2])
        twice = next(self.folder.glob("node-2/checkpoints/*/*model_states.pt"))
        size = twice.stat().st_size
        with twice.open("ab") as file:
            file.write(b"x")
        self.assert_all_refused(
            self.convert_on([1, 1, 1]), 2, f"{size} bytes at rank 1 and {size + 1} at rank 2", "not of one checkpoint"
        )

    def test_damage_is_found_by_who_has_the_file(self) -> None:
        """And everybody ends."""
        whole = self.checkpoint("zero2_dp4")
        self.spread(whole, 3, lambda number, name: [2] if "optim" in name else [number % 2])
        path = next(self.folder.glob("node-2/checkpoints/*/*optim_states.pt"))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        self.assert_all_refused(self.convert_on([1, 1, 1]), 2, "rank 2 of 3: ", path.name, "is damaged")

    def test_one_rank_alone(self) -> None:
        """Somebody forgot mpirun."""
        source = self.checkpoint("zero1_dp2")
        result = self.run_program("ucprun", "convert", source, self.out, *TARGET, "--node-local", "source")
        self.assert_refused(result, 1, "--node-local is for several ranks, and here is one")

    def test_a_killed_node_ends_the_run(self) -> None:
        """Even one whose files others wait for. Other ranks go on from what is kept."""
        sizes = ("layers=4", "hidden=512", "heads=8", "kv_heads=8", "ffn=2048", "vocab=32000")
        made = self.run_program(
            "ucprun",
            "synth",
            "llama",
            "big",
            "--to",
            "deepspeed:dp=2,zero=1",
            *(word for size in sizes for word in ("--set", size)),
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        self.spread(self.folder / "big", 3, lambda number, name: [1] if "optim" in name else [number % 3])
        words = (
            "convert",
            "checkpoints",
            self.out,
            "--to",
            "universal",
            "--node-local",
            "source",
            "--threads",
            "1",
            "--journal-every",
            "0.05",
        )
        for _ in range(20):  # A run may end before it is seen to have begun.
            status, seconds = run_with_one_killed(self.command_on([1, 1, 1], *words), self.folder)
            if status != 0:
                self.assertLess(seconds, 15)
                break
            shutil.rmtree(self.out)
        self.assertNotEqual(status, 0)
        self.assertFalse(self.out.exists())
        again = self.mpirun([2, 1, 1], *words, "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)
        verified = self.run_program("ucprun", "verify", "out", "--synth")
        self.assertEqual(verified.returncode, 0, verified.stderr)


if __name__ == "__main__":
    unittest.main()
