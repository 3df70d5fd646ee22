"""`memory:JOB` as a checkpoint of every command, and `ucprun memory list`, `verify` and `drop`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import unittest
from pathlib import Path
from typing import Any

from programs import ProgramTest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "dcp"


class MemoryVersions(ProgramTest):
    """A job of one machine, `one`, and a job of four, of which this machine has some parts or all."""

    def setUp(self) -> None:
        """The folder that all commands look at."""
        super().setUp()
        self.memory = self.folder / "memory"
        os.environ["UCP_MEMORY_DIRECTORY"] = str(self.memory)
        self.addCleanup(os.environ.pop, "UCP_MEMORY_DIRECTORY")

    def job(self, name: str) -> Path:
        """Its folder."""
        folder = self.memory / name
        folder.mkdir(parents=True)
        (folder / "lock").write_text("4711")
        return folder

    def fixture(self, name: str) -> Path:
        """A folder that PyTorch wrote."""
        return FIXTURES / name / "checkpoint"

    def one(self) -> Path:
        """Steps 9 and 10, of which the tenth is the newer one."""
        folder = self.job("one")
        for step in (9, 10):
            self.done("convert", self.fixture("fsdp2"), folder / f"step-{step}", "--to", "dcp")
        return folder

    def four(self, parts: range, whole: bool) -> Path:
        """The files that four ranks saved each for itself, as parts of four machines."""
        version = self.job("four") / "parts" / "000002-0123abcd-7"
        source = self.fixture("fsdp2_by_rank")
        for number in parts:
            (version / f"{number}-of-4").mkdir(parents=True)
            for file in source.glob(f"__{number}[._]*"):
                shutil.copy(file, version / f"{number}-of-4")
        if whole:
            shutil.copytree(source, version / "whole")
        return version

    def done(self, *arguments: object) -> str:
        """Its output."""
        result = self.run_program("ucprun", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, *arguments: object) -> str:
        """The sentence, of exit code 1."""
        result = self.run_program("ucprun", *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        return result.stderr.splitlines()[0]

    def listed(self, *arguments: object) -> list[dict[str, Any]]:
        """The versions."""
        versions: list[dict[str, Any]] = json.loads(self.done("memory", "list", *arguments, "--json"))["versions"]
        return versions

    def test_a_checkpoint_for_every_command(self) -> None:
        """The newest version; the same as its folder by name, and as the folder that it was made of."""
        folder = self.one()
        self.assertEqual(self.done("inspect", "memory:one"), self.done("inspect", folder / "step-10"))
        self.assertEqual(self.done("inspect", f"memory:{folder}"), self.done("inspect", folder / "step-10"))
        self.done("convert", "memory:one", self.out, "--to", "universal")
        self.done("verify", self.out, "--same", "memory:one")
        self.done("diff", "memory:one", self.out)
        self.done("load", "memory:one", "--to", "universal")

    def test_versions_of_an_engine(self) -> None:
        """Records of files would be misread as tensors of a model; `list` and `drop` take them all the same."""
        folder = self.one()
        (folder / "engine").touch()
        command = "python3 -m ucp_checkpoint.engine_folder memory:one OUT"
        said = f"the versions in `{folder}` are of a DeepSpeed engine: `{command}`"
        for arguments in (["inspect", "memory:one"], ["convert", "memory:one", self.out, "--to", "universal"]):
            self.assertIn(said, self.refused(*arguments))
        self.assertFalse(self.out.exists())
        self.assertEqual([version["step"] for version in self.listed("one")], [10, 9])
        self.done("memory", "drop", "one")
        self.assertFalse(folder.exists())

    def test_parts(self) -> None:
        """All of them are a checkpoint, and some are not."""
        self.four(range(4), True)
        compared = self.done("verify", "memory:four", "--same", self.fixture("fsdp2_by_rank"))
        self.assertIn("bit for bit the same", compared)
        (version,) = self.listed("four")
        self.assertEqual((version["step"], version["start"], version["parts"]), (7, 2, [0, 1, 2, 3]))
        self.assertIn("parts 0, 1, 2, 3 of 4", self.done("memory", "list"))

    def test_parts_that_are_elsewhere(self) -> None:
        """Named, with the step."""
        version = self.four(range(1, 3), False)
        (said,) = self.listed()
        self.assertEqual((said["parts"], said["of_parts"], said["whole"]), ([1, 2], 4, None))
        self.assertIn(
            f"of step 7 in `{version.parent.parent}`, this machine has the parts 1, 2 of 4",
            self.refused("inspect", "memory:four"),
        )

    def test_what_is_not_a_version(self) -> None:
        """Hidden folders are unfinished, links are not followed, other names are not versions."""
        folder = self.one()
        (folder / "step-11").symlink_to(folder / "step-9")
        in_parts = ("000001-0123abcd-99/.0-of-1.copy", "junk/0-of-1", "--/1-of-1")
        for name in (".step-12", "step-x", *(f"parts/{place}" for place in in_parts)):
            (folder / name).mkdir(parents=True)
        self.assertEqual([version["step"] for version in self.listed("one")], [10, 9])

    def test_damage(self) -> None:
        """Exit code 3, with the file."""
        folder = self.one()
        self.done("memory", "verify")
        file = folder / "step-9" / "__0_0.distcp"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        result = self.run_program("ucprun", "memory", "verify", "one")
        self.assertEqual(result.returncode, 3)
        self.assertIn(f"different: `{folder / 'step-9'}`: `__0_0.distcp` is not what was written", result.stderr)
        self.assertIn(f"`{folder / 'step-10'}`: every file is what was written", result.stdout)
        faults = json.loads(self.run_program("ucprun", "memory", "verify", "one", "--json").stdout)["parts"]
        self.assertEqual([len(part["faults"]) for part in faults], [0, 1])
        (folder / "step-9" / "ucp_manifest.json").unlink()
        result = self.run_program("ucprun", "memory", "verify", "one")
        self.assertIn("`ucp_manifest.json` is missing", result.stderr)

    def test_versions_that_go(self) -> None:
        """As they do while a job runs: they are passed over at any moment."""
        folder = self.one()
        ends = threading.Event()

        def come_and_go() -> None:
            step = 9
            while not ends.is_set():  # A name that has gone does not come back.
                (folder / f"step-{step}").rename(folder / ".gone")
                step = max(step, 10) + 1
                (folder / ".gone").rename(folder / f"step-{step}")

        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            for _ in range(20):
                self.assertIn(10, [version["step"] for version in self.listed("one")])
                self.assertIn(f"`{folder / 'step-10'}`: every file", self.done("memory", "verify", "one"))
        finally:
            ends.set()
            thread.join()

    def test_drop(self) -> None:
        """A job that does not run, and nothing else."""
        folder = self.one()
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("the job `one` runs, as process 4711", self.refused("memory", "drop", "one"))
        (folder / "writers").write_text("4712\n")
        with (folder / "writers").open() as writers:
            fcntl.flock(writers, fcntl.LOCK_SH)
            self.assertIn("process 4712 still writes for the job `one`", self.refused("memory", "drop", "one"))
        self.done("memory", "drop", "one")
        self.assertFalse(folder.exists())
        other = self.memory / "other"
        other.mkdir()
        self.assertIn("is not the folder of a job", self.refused("memory", "drop", "other"))
        self.assertTrue(other.exists())
        self.assertIn("no job has versions", self.done("memory", "list") + self.done("memory", "list", "--json") or "")

    def test_names(self) -> None:
        """Refused with what was found."""
        for job, words in (("nothing", "there are no versions of a job in"), ("a b", "a job has a name of letters")):
            self.assertIn(words, self.refused("inspect", f"memory:{job}"))


if __name__ == "__main__":
    unittest.main()
