"""Where a checkpoint is to go, and what a process may do: each in one sentence, and nothing is left or lost."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
import unittest

from programs import GPT_SPEC, PROGRAMS, ProgramTest, files_of

NOBODY = 65534


class Places(ProgramTest):
    """Destinations."""

    def test_a_symbolic_link(self) -> None:
        """Whatever it leads to, with --force too."""
        source = self.checkpoint("zero1_dp2")
        (self.folder / "elsewhere").mkdir()
        for target in ("elsewhere", "nothing"):
            self.out.symlink_to(target)
            for more in ([], ["--force"], ["--resume"]):
                result = self.convert(source, *more)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(
                    result.stderr, f"ucprun: error: `{self.out}` is a symbolic link; name the folder that is meant\n"
                )
            self.out.unlink()
        self.assertEqual(list((self.folder / "elsewhere").iterdir()), [])

    def test_a_symbolic_link_with_a_slash(self) -> None:
        """It is the link that is meant, and not what it leads to."""
        source = self.checkpoint("zero1_dp2")
        (self.folder / "elsewhere").mkdir()
        for target in ("elsewhere", "nothing"):
            self.out.symlink_to(target)
            result = self.run_program("ucprun", "convert", source, f"{self.out}//", "--to", "universal", "--force")
            self.assertEqual(
                (result.returncode, result.stderr),
                (1, f"ucprun: error: `{self.out}` is a symbolic link; name the folder that is meant\n"),
            )
            self.out.unlink()

    def test_the_longest_name(self) -> None:
        """Files that are written meanwhile stand beside it, under a longer name."""
        source = self.checkpoint("zero1_dp2")
        for length, code in ((240, 0), (241, 1)):
            result = self.run_program("ucprun", "convert", source, "n" * length, "--to", "universal")
            self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn("its name has 241 bytes, and 240 are the most", result.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name != "zero1_dp2"], ["n" * 240])

    def test_a_working_directory_that_is_gone(self) -> None:
        """A relative name means nothing there, and an absolute one what it always does."""
        source = self.checkpoint("zero1_dp2")
        gone = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
        for program, words in (
            ("ucprun", ["convert", source, "out", "--to", "universal"]),
            ("ucprun", ["convert", source, "out", "--to", "universal", "--force"]),
            ("ucprun", ["convert", source, "../out", "--to", "universal"]),
            ("ucprun", ["convert", "source", self.out, "--to", "universal"]),
            ("ucprun", ["diff", "source", source]),
            ("ucprun", ["verify", "source"]),
            ("ucprun", ["inspect", "."]),
            ("ucprun", ["bench", "."]),
            ("ucpc", ["plan", "--from", "source", "--to", "universal"]),
            ("ucpc", ["plan", "--from", source, "--to", "universal", "-o", "run.plan"]),
            ("ucpc", ["check", "spec.ucp"]),
            ("ucpc", ["fmt", "spec.ucp"]),
        ):
            result = subprocess.run(["sh", "-c", gone, "sh", PROGRAMS / program, *words], cwd=self.folder,
                                    capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
            self.assertIn(result.returncode, (1, 2), (words, result.stderr))
            self.assertRegex(result.stderr, rf"^{program}: error: [^\n]*\n$", words)
            self.assertEqual([path.name for path in self.folder.iterdir()], ["zero1_dp2"], words)
            if words[2:3] == ["out"]:
                self.assertIn("`out` is a path from the working directory, and that cannot be found: no such file or "
                              "directory; name it from `/` on, or change to another folder", result.stderr)  # fmt: skip
        result = subprocess.run(["sh", "-c", gone, "sh", PROGRAMS / "ucprun", "convert", source, self.out, "--to",
                                 "universal"], cwd=self.folder, capture_output=True, text=True, timeout=60,
                                check=False)  # fmt: skip
        self.assert_done(result)

    def test_a_mount_point(self) -> None:
        """It cannot be replaced, and what is mounted there stays."""
        source = self.checkpoint("zero1_dp2")
        self.out.mkdir()
        convert = f'"{PROGRAMS}/ucprun" convert "{source}" "{self.out}" --to universal --force'
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this system lets nobody mount anything")
        result = subprocess.run(
            ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs none "{self.out}" && {convert}'],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            result.stderr, f"ucprun: error: `{self.out}` is a mount point and cannot be replaced; name a folder in it\n"
        )

    def test_a_path_that_is_too_long(self) -> None:
        """Below 4,000 characters there is room for our files; with 4,070 there is none."""
        source = self.checkpoint("zero1_dp2")
        parent = self.folder
        while len(str(parent)) < 3840:
            parent /= "d" * 190
        parent.mkdir(parents=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(parent)], check=False)
        for length in (4000, 4070):
            out = parent / ("o" * (length - len(str(parent)) - 1))
            result = self.run_program("ucprun", "convert", source, out, "--to", "universal")
            if length == 4000:
                self.assertEqual(result.returncode, 0, result.stderr)
                subprocess.run(["rm", "-rf", str(out)], check=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"\Aucprun: error: cannot [^\n]*: file name too long\n\Z")
        self.assertEqual(list(parent.iterdir()), [])

    def test_a_parent_that_is_not_there_or_no_folder(self) -> None:
        """Nothing is made on the way."""
        source = self.checkpoint("zero1_dp2")
        (self.folder / "file").write_text("")
        for parent in ("missing", "file"):
            out = self.folder / parent / "out"
            result = self.run_program("ucprun", "convert", source, out, "--to", "universal")
            self.assertEqual(
                (result.returncode, result.stderr),
                (1, f"ucprun: error: `{out}` cannot be written: there is no folder `{out.parent}`\n"),
            )

    def test_the_lock_of_a_living_process(self) -> None:
        """It is respected, and one of a dead process is not."""
        source = self.checkpoint("zero1_dp2")
        lock = self.folder / ".out.ucp-lock"
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            (self.folder / ".out.ucp-partial").mkdir()
            for more in ([], ["--resume"]):
                result = self.convert(source, *more)
                self.assertEqual(result.returncode, 2)
                self.assertIn(f"another process is writing `{self.out}` (it holds `{lock}`)", result.stderr)
            self.assertTrue((self.folder / ".out.ucp-partial").is_dir())
        self.assert_done(self.convert(source))
        self.assertFalse(lock.exists())


class PlacesPastThePageCache(Places):
    """The same with files that are opened once more."""

    def run_program(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Their messages name both conversions."""
        more = ["--io", "direct"] if arguments[0] == "convert" else []
        return super().run_program(program, *arguments, *more)


class Limits(ProgramTest):
    """The rights of a process."""

    def run_limited(self, prepare: object, *arguments: object) -> subprocess.CompletedProcess[str]:
        """A run in a process that did `prepare` first."""
        command = [str(PROGRAMS / "ucprun"), *map(str, arguments)]
        result = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, preexec_fn=prepare
        )
        self.assertGreaterEqual(result.returncode, 0, result.stderr)
        return result

    def test_few_open_files(self) -> None:
        """Too few are refused before anything is made; with just enough of them it works."""
        source = self.checkpoint("zero1_dp2")
        for files in (*range(4, 24), 40):
            result = self.run_limited(
                lambda n=files: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)),
                "convert",
                source,
                self.out,
                "--to",
                "universal",
                "--threads",
                2,
            )
            if result.returncode == 0:
                self.assert_done(result)
                shutil.rmtree(self.out)
            elif "ulimit -n" in result.stderr:
                self.assert_refused(result, 1, f"{files} files open at once (`ulimit -n`)", "with 2 threads needs 22")
            else:  # Not even the source could be looked at.
                self.assert_refused(result, 2, "too many open files")
            self.assertEqual(result.returncode == 0, files >= 22, files)
            self.assert_nothing_left()

    def test_more_source_files_than_may_be_open(self) -> None:
        """4,096 ranks' files, and 64 of them at once."""
        source = self.folder / "source"
        sizes = ["layers=2", "hidden=64", "heads=4", "ffn=256", "vocab=512", "grain=16", "seq=8"]
        words = [word for size in sizes for word in ("--set", size)]
        result = self.run_program("ucprun", "synth", GPT_SPEC, source, "--to", "deepspeed:dp=4096,zero=1", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(len(list(source.rglob("*optim_states.pt"))), 4096)
        for files in (1024, 64):
            result = self.run_limited(
                lambda n=files: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)),
                "convert",
                source,
                self.folder / f"out{files}",
                "--to",
                "universal",
                "--spec",
                GPT_SPEC,
                *words,
            )
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.folder / "out1024"), files_of(self.folder / "out64"))

    def test_umask(self) -> None:
        """New files are for those that the mask names."""
        source = self.checkpoint("zero1_dp2")
        result = self.run_limited(lambda: os.umask(0o077), "convert", source, self.out, "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        for path in [self.out, *self.out.rglob("*")]:
            self.assertEqual(path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600, path)

    def as_nobody(self) -> object:
        """Takes the rights of root from the process; root may do all."""
        if os.geteuid() != 0:
            return lambda: None
        self.folder.chmod(0o755)
        return lambda: (os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY))

    def test_no_permission(self) -> None:
        """To write beside the destination, to read a source, and with a mask that forbids what is made."""
        become = self.as_nobody()
        if os.geteuid() == 0 and self.run_limited(become, "--version").returncode != 0:
            self.skipTest("somebody else may not run the programs here")
        source = self.checkpoint("zero1_dp2")
        locked = self.folder / "locked"
        locked.mkdir(mode=0o555)
        result = self.run_limited(become, "convert", source, locked / "out", "--to", "universal")
        self.assertEqual(
            (result.returncode, result.stderr),
            (2, f"ucprun: error: `{locked}/out` cannot be written: `{locked}` is not writable\n"),
        )
        place = self.folder / "place"
        place.mkdir()
        place.chmod(0o777)
        for mask in (0o777, 0o277):
            result = self.run_limited(
                lambda m=mask: (become(), os.umask(m)), "convert", source, place / "out", "--to", "universal"
            )
            self.assertEqual(
                (result.returncode, result.stderr),
                (
                    1,
                    f"ucprun: error: the umask {mask:04o} takes rights to what is written from its own "
                    "owner; set another one, such as 022\n",
                ),
            )
            self.assertEqual(list(place.iterdir()), [])
        secret = next(source.rglob("*optim_states.pt"))
        secret.chmod(0)
        if os.geteuid() != 0 or secret.stat().st_uid != NOBODY:
            result = self.run_limited(become, "convert", source, place / "out2", "--to", "universal")
            self.assertEqual(
                (result.returncode, result.stderr), (2, f"ucprun: error: cannot open `{secret}`: permission denied\n")
            )
        self.assertEqual([path.name for path in place.iterdir() if "out2" in path.name], [])


if __name__ == "__main__":
    unittest.main()
