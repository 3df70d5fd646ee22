"""Files that options name to be written: what exists is not replaced without --force, and what is precious never."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import threading
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path

from programs import GPT_SPEC, PROGRAMS, SOURCE, ProgramTest

GPT = SOURCE / "tests" / "fixtures" / "gpt_pp2_tp2_dp2" / "checkpoint"
SPEC = 'ucp 1\nlayout one { "w" [2] }\n'


class Outputs(ProgramTest):
    """Every output by every thing that can stand where it goes."""

    parent_folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self) -> None:
        """A source, and each kind of command."""
        super().setUp()
        self.source = self.checkpoint("zero1_dp2")
        self.work = self.folder / "work"
        self.work.mkdir()
        self.target = self.work / "file"

    def commands(self, target: object) -> dict[str, list[object]]:
        """By the output, which is the last word."""
        convert = ["ucprun", "convert", self.source, self.out, "--to", "universal", "--threads", 1]
        return {
            "plan": ["ucpc", "plan", "--from", self.source, "--to", "universal", "-o", target],
            "page": ["ucpc", "explain", GPT_SPEC, "--from", GPT, "--html", target],
            "draft": ["ucpc", "infer", GPT, "-o", target],
            "events": [*convert, "--events", target],
            "timeline": [*convert, "--timeline", target],
        }

    def run_to(self, what: str, target: object, *more: object) -> subprocess.CompletedProcess[bytes]:
        """One of the commands."""
        subprocess.run(["rm", "-rf", str(self.out)], check=True)
        command = [
            str(PROGRAMS / self.commands(target)[what][0]),
            *map(str, self.commands(target)[what][1:]),
            *map(str, more),
        ]
        return subprocess.run(command, cwd=self.folder, capture_output=True, timeout=60, check=False)

    def assert_is(self, what: str, content: bytes) -> None:
        """A whole file of this kind."""
        if what == "plan":
            self.assertTrue(content.startswith(b"UCPPLAN"))
        elif what == "page":
            self.assertTrue(content.startswith(b"<!doctype html>"))
            self.assertTrue(content.rstrip().endswith(b"</html>"))
        elif what == "draft":
            self.assertRegex(content, rb"(?s)\A(//[^\n]*\n)*ucp 1\n.*}\n\Z")
        elif what == "events":
            self.assertEqual([json.loads(line)["event"] for line in content.splitlines()][-1], "report")
        else:
            self.assertEqual(json.loads(content)[-1]["name"], "ucprun")

    def assert_written(self, what: str, *more: object, target: Path | None = None) -> None:
        """There, and nothing beside it."""
        before = self.everything()
        result = self.run_to(what, target or self.target, *more)
        self.assertEqual(result.returncode, 0, (what, more, result.stderr))
        self.assert_is(what, (target or self.target).read_bytes())
        changed = {name for name, content in self.everything().items() if before.get(name) != content}
        self.assertLessEqual(changed, {os.path.realpath(target or self.target)}, what)

    def everything(self) -> dict[str, bytes]:
        """All files that a test has, but those of the destination."""
        files = [path for root in (self.source, self.work) for path in root.rglob("*")]
        return {str(path): path.read_bytes() for path in files if path.is_file() and not path.is_symlink()}

    def assert_refused_for(self, what: str, words: str, *more: object, target: object = None) -> None:
        """One sentence, and all is as it was."""
        before = self.everything()
        result = self.run_to(what, target or self.target, *more)
        stderr = result.stderr.decode()
        self.assertEqual(result.returncode, 1, (what, more, stderr))
        self.assertEqual(len([line for line in stderr.splitlines() if ": error: " in line]), 1, (what, stderr))
        self.assertIn(words, stderr, what)
        self.assertEqual(self.everything(), before, what)
        self.assertFalse(self.out.exists(), what)

    def test_what_may_be_replaced(self) -> None:
        """Nothing, an empty file, what the same option wrote, and with --force any other file."""
        for what in self.commands(""):
            self.target.unlink(missing_ok=True)
            self.assert_written(what)
            if what == "draft":
                self.assert_refused_for(what, "is a spec")
            else:
                self.assert_written(what)
            self.target.write_bytes(b"")
            self.assert_written(what)
            self.target.write_text("notes\n")
            self.assert_refused_for(what, "is there already, and is not the ")
            mode = 0o640
            self.target.chmod(mode)
            self.assert_written(what, "--force")
            self.assertEqual(self.target.stat().st_mode & 0o777, mode)

    def test_of_another_option(self) -> None:
        """A plan is not a page, and events are not a timeline."""
        made: dict[str, bytes] = {}
        for what in ("plan", "page", "events", "timeline"):
            self.target.unlink(missing_ok=True)
            self.assertEqual(self.run_to(what, self.target).returncode, 0)
            made[what] = self.target.read_bytes()
        for what in made:
            for other, content in made.items():
                if other != what:
                    self.target.write_bytes(content)
                    self.assert_refused_for(what, "is there already, and is not the ")

    def precious(self) -> Iterator[tuple[Path, str]]:
        """Files that nothing replaces, and why."""
        shard = next(self.source.rglob("*model_states.pt"))
        for path in (shard, self.source / "latest"):
            yield path, "nothing replaces it"
        (self.source / "train.log").write_text("step 1\n")
        yield self.source / "train.log", "a file in the checkpoint `"
        (shard.parent / "notes").write_text("x\n")
        yield shard.parent / "notes", "a file in the checkpoint `"
        with zipfile.ZipFile(self.target, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({}, protocol=2))
        yield self.target, "a torch archive"
        for protocol in (2, 4, 5):
            self.target.write_bytes(pickle.dumps({"a": 1}, protocol=protocol))
            yield self.target, "a pickle"
        header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        self.target.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        yield self.target, "a safetensors file"
        for text in (SPEC, "// comment\n" * 1000 + "\n  // another\nucp  1\n"):
            self.target.write_text(text)
            yield self.target, "a spec"
        for name, why in (("x.ucp", "a spec"), ("model.pt", "named as"), ("config.json", "named as"),
                          ("pytorch_model.bin", "named as"), ("x.index.json", "named as")):  # fmt: skip
            (self.work / name).write_text("anything\n")
            yield self.work / name, why
        self.target.write_text("one of two\n")
        (self.work / "second").hardlink_to(self.target)
        yield self.target, "has 2 names (hard links)"

    def test_what_is_precious(self) -> None:
        """With --force neither, and through a link or another path to it neither."""
        link = self.work / "link"
        for path, why in self.precious():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            for what in self.commands(""):
                self.assert_refused_for(what, why, target=path)
                self.assert_refused_for(what, why, "--force", target=path)
                self.assert_refused_for(what, why, "--force", target=link)
                detour = f"{path.parent}/../{path.parent.name}//{path.name}"
                self.assert_refused_for(what, why, "--force", target=detour)

    def test_what_the_command_reads(self) -> None:
        """Whatever it is called."""
        config = self.work / "values"
        config.write_text("{}")
        plan = self.work / "run"
        self.assertEqual(self.run_to("plan", plan).returncode, 0)
        for command, used in (
            (["ucpc", "explain", GPT_SPEC, "--from", GPT, "--config", config, "--html"], config),
            (["ucpc", "plan", GPT_SPEC, "--from", GPT, "--to", "universal", "--config", config, "-o"], config),
            (["ucprun", "run", plan, self.out, "--from", self.source, "--events"], plan),
            (["ucprun", "run", plan, self.out, "--from", self.source, "--timeline"], plan),
            (
                [
                    "ucprun",
                    "convert",
                    self.source,
                    self.out,
                    "--to",
                    "universal",
                    "--events",
                    self.target,
                    "--timeline",
                ],
                self.target,
            ),
        ):
            before = used.read_bytes() if used != self.target else b""
            result = self.run_program(*command, used, "--force")
            self.assertEqual(result.returncode, 1, command)
            self.assertIn("which this command uses itself", result.stderr)
            self.assertEqual(used.read_bytes() if used != self.target else b"", before, command)
            self.assertFalse(self.out.exists())

    def test_links(self) -> None:
        """The file that a link leads to is replaced, and the link stays; a link to nothing is refused."""
        link = self.work / "link"
        for what in self.commands(""):
            link.unlink(missing_ok=True)
            link.symlink_to("file")
            self.target.unlink(missing_ok=True)
            self.assert_refused_for(what, "is a symbolic link to nothing", target=link)
            self.target.write_bytes(b"")
            self.assert_written(what, target=link)
            self.assertTrue(link.is_symlink())
            self.assertFalse(self.target.is_symlink())

    def test_folders_and_devices(self) -> None:
        """A folder is refused; devices and pipes take the bytes as they are."""
        for what in self.commands(""):
            self.assert_refused_for(what, "is a folder, and a file is to be written", "--force", target=self.work)
            result = self.run_to(what, "/dev/null")
            self.assertEqual(result.returncode, 0, (what, result.stderr))
            result = self.run_to(what, "/dev/full")
            self.assertEqual(result.returncode, 0 if what in ("events", "timeline") else 2, (what, result.stderr))
            self.assertIn("no space left on device", result.stderr.decode())
            self.assert_is(what, self.run_to(what, "/dev/stdout").stdout)
            self.assert_is(what, self.through_pipe(what))
        self.assert_refused_for("events", "both go to standard output", "--timeline", "-", target="/dev/stdout")

    def through_pipe(self, what: str) -> bytes:
        """A named one, which another process reads."""
        pipe = self.work / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        result = self.run_to(what, pipe)
        reader.join(timeout=60)
        self.assertEqual(result.returncode, 0, (what, result.stderr))
        return read[0]

    def test_a_file_that_is_open_already(self) -> None:
        """It was opened by whoever gives it, behind what it holds, and is not begun anew."""
        for what in self.commands(""):
            self.target.write_text("before\n")
            command = self.commands("/dev/fd/9")[what]
            words = [str(PROGRAMS / command[0]), *map(str, command[1:])]
            subprocess.run(["rm", "-rf", str(self.out)], check=True)
            result = subprocess.run(["bash", "-c", 'exec 9>>work/file; "$@"', "bash", *words], cwd=self.folder,
                                    capture_output=True, timeout=60, check=False)  # fmt: skip
            self.assertEqual(result.returncode, 0, (what, result.stderr))
            begin, _, rest = self.target.read_bytes().partition(b"\n")
            self.assertEqual(begin, b"before")
            self.assert_is(what, rest)

    def test_where_nothing_can_be_written(self) -> None:
        """A folder that is not there, or is a file."""
        self.target.write_text("x")
        for what in self.commands(""):
            for target in (self.work / "missing" / "file", self.target / "file"):
                before = self.everything()
                result = self.run_to(what, target, "--force")
                self.assertEqual(result.returncode, 2, (what, result.stderr))
                self.assertIn("cannot write the ", result.stderr.decode())
                self.assertEqual(self.everything(), before)

    def test_what_an_output_did_not_touch(self) -> None:
        """A file of the user's beside it, under the name that an unfinished one had before."""
        (self.work / "file.partial").write_text("mine\n")
        for what in self.commands(""):
            self.target.unlink(missing_ok=True)
            self.assert_written(what)
        self.assertEqual((self.work / "file.partial").read_text(), "mine\n")


if __name__ == "__main__":
    unittest.main()
