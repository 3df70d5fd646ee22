"""Nodes with disks of their own: each rank works in the folder of its node, so that `checkpoints` and `out` are another
folder for each."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ranks import ENVIRONMENT

from programs import PROGRAMS, ProgramTest, all_files


class NodeTest(ProgramTest):
    """Each run starts mpirun, which takes half a second."""

    def make_nodes(self, nodes: int) -> None:
        """Empty ones."""
        for node in range(nodes):
            (self.folder / f"node-{node}").mkdir()

    def spread(self, whole: Path, nodes: int, nodes_of: Callable[[int, str], list[int]]) -> None:
        """Gives each file of a checkpoint to the nodes that `nodes_of` says for its number and name."""
        self.make_nodes(nodes)
        files = sorted(path for path in whole.rglob("*") if path.is_file())
        for number, path in enumerate(files):
            for node in nodes_of(number, path.name):
                copy = self.folder / f"node-{node}" / "checkpoints" / path.relative_to(whole)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)

    def command_on(self, ranks_of_node: list[int], *words: object) -> list[str]:
        """Of mpirun: so many ranks in each node's folder."""
        command = ["mpirun"]
        for node, ranks in enumerate(ranks_of_node):
            command += [":"] if node else []
            command += ["-n", str(ranks), "--wdir", str(self.folder / f"node-{node}"), str(PROGRAMS / "ucprun")]
            command += [*map(str, words)]
        return command

    def mpirun(self, ranks_of_node: list[int], *words: object) -> subprocess.CompletedProcess[str]:
        """Runs ucprun on all nodes."""
        return subprocess.run(
            self.command_on(ranks_of_node, *words),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=ENVIRONMENT,
        )

    def part(self, node: int, name: str = "out") -> dict[str, bytes]:
        """The contents of a node's disk there."""
        return all_files(self.folder / f"node-{node}" / name)

    def assert_all_refused(self, result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
        """Once for all ranks, and nothing is left."""
        self.assert_one_error(result, code, *words)
        self.assert_nothing_left()

    def assert_one_error(self, result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
        """Said once for all ranks."""
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("ucprun: error: "), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
