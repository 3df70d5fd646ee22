"""How much the programs say, and in which colours: --quiet, --color, NO_COLOR, TERM, `help` and -V."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import unittest

from programs import GPT_SPEC, PROGRAMS, ProgramTest

ESCAPE = "\x1b["
WRONG = "ucp 1\n\ndim layers = 2\ndim width = layrs\n"
WARNED = 'ucp 1\n\ndim ffn from args.ffn\ndim other = 7\n\nlayout x {\n  "w" [2 * ffn@tp]\n}\n\nmesh tp\n'


class Speech(ProgramTest):
    """Of both programs."""

    def on_terminal(self, *words: object, **environment: str) -> str:
        """Standard error, which is a terminal of its own."""
        ours, theirs = pty.openpty()
        kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        try:
            subprocess.run(
                [str(PROGRAMS / words[0]), *map(str, words[1:])],
                stderr=theirs,
                stdout=subprocess.PIPE,
                cwd=self.folder,
                env={"TERM": "xterm", **kept, **environment},
                timeout=60,
                check=False,
            )
            os.close(theirs)
            text = b""
            while True:
                try:
                    piece = os.read(ours, 1 << 16)
                except OSError:  # Nobody has the other end any more.
                    break
                if not piece:
                    break
                text += piece
        finally:
            os.close(ours)
        return text.decode().replace("\r\n", "\n")

    def subcommands(self, program: str) -> list[str]:
        """As its help lists them."""
        listed = self.run_program(program, "--help").stdout.split("Subcommands:")[1].split("\n\n")[0]
        return re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE)

    def spec(self, text: str) -> str:
        """A file of that text."""
        (self.folder / "a.ucp").write_text(text)
        return "a.ucp"

    def test_colours(self) -> None:
        """On a terminal that obeys them, unless somebody wants none; everywhere if always."""
        check = ("ucpc", "check", self.spec(WRONG))
        for words, environment, is_coloured in (
            ((), {}, True),
            (("--color", "auto"), {}, True),
            (("--color=never",), {}, False),
            ((), {"NO_COLOR": "1"}, False),
            ((), {"NO_COLOR": ""}, True),
            ((), {"TERM": "dumb"}, False),
            (("--color", "always"), {"TERM": "dumb", "NO_COLOR": "1"}, True),
        ):
            with self.subTest(words=words, environment=environment):
                shown = self.on_terminal(*check, *words, **environment)
                self.assertEqual(ESCAPE in shown, is_coloured, shown)
                self.assertIn("there is no dim `layrs`", shown)
                if is_coloured:
                    for painted in (
                        "\x1b[1ma.ucp:4:13\x1b[0m: \x1b[1;31merror:\x1b[0m",
                        "\x1b[1;32m^~~~~\x1b[0m",
                        "\x1b[1;36mhint:\x1b[0m",
                        "ucpc: \x1b[1;31merror:\x1b[0m 1 error in",
                    ):
                        self.assertIn(painted, shown)
        self.assertNotIn(ESCAPE, self.run_program(*check).stderr)
        self.assertIn(ESCAPE, self.run_program(*check, "--color", "always").stderr)
        result = self.run_program("ucpc", "--color", "always", "check", "a.ucp", "--json")
        self.assertNotIn(ESCAPE, result.stdout)
        self.assertIn("ucpc: \x1b[1;31merror:\x1b[0m", result.stderr)

    def test_colours_of_messages(self) -> None:
        """Notes and warnings of a run, and what is wrong with a command line."""
        source = self.checkpoint("zero2_dp2")
        shown = self.on_terminal("ucprun", "convert", source, self.out, "--to", "safetensors")
        self.assertIn("\x1b[1;36mnote:\x1b[0m masters and optimizer states are left out", shown)
        shown = self.on_terminal("ucprun", "inspekt", source)
        self.assertIn("ucprun: \x1b[1;31merror:\x1b[0m there is no subcommand `inspekt`", shown)
        self.assertNotIn(ESCAPE, self.on_terminal("ucprun", "inspekt", source, "--color", "never"))

    def test_names_do_not_command_a_terminal(self) -> None:
        """Text from a file is made printable before anything is painted."""
        shown = self.on_terminal("ucprun", "inspect", "\x1b[31mred")
        self.assertIn("\\x1b[31mred", shown)

    def test_progress_on_a_dumb_terminal(self) -> None:
        """Is not written over again, which such a terminal cannot."""
        source = self.checkpoint("zero2_dp2")
        convert = ("ucprun", "convert", source, self.out, "--to", "universal", "--force", "--max-bandwidth=500KB")
        self.assertIn("\r", self.on_terminal(*convert))
        self.assertEqual(self.on_terminal(*convert, TERM="dumb"), "")
        self.assertEqual(self.on_terminal(*convert, "--quiet"), "")

    def test_quiet(self) -> None:
        """Nothing where all went well, whatever there would be to say; one object for those who read JSON."""
        source = self.checkpoint("zero2_dp2")
        for words in (("convert", source, self.out, "--to", "safetensors"), ("verify", self.out),
                      ("load", source, "--to", "universal"), ("diff", source, source)):  # fmt: skip
            result = self.run_program("ucprun", *words, "--quiet")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), words)
        result = self.run_program("ucprun", "--quiet", "verify", self.out, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        json.loads(result.stdout)
        self.assertEqual(self.on_terminal("ucprun", "convert", source, self.folder / "b", "--to", "universal",
                                          "--quiet"), "")  # fmt: skip
        for words in (("plan", "--from", source, "--to", "universal", "-o", "a.plan"), ("check", GPT_SPEC)):
            result = self.run_program("ucpc", *words, "--quiet")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), words)

    def test_quiet_shows_what_was_asked_for(self) -> None:
        """A draft, a listing and a formatted spec are what these commands are for."""
        source = self.checkpoint("autotp_tp2_dp2")
        for words in (("ucpc", "infer", source), ("ucprun", "inspect", source), ("ucpc", "explain", "--from", source),
                      ("ucpc", "explain-error", "uneven-cut"), ("ucpc", "completion", "bash")):  # fmt: skip
            loud = self.run_program(*words)
            quiet = self.run_program(*words, "--quiet")
            self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (loud.returncode, loud.stdout, ""), words)
            self.assertNotEqual(quiet.stdout, "")

    def test_quiet_says_errors(self) -> None:
        """With the exit codes that they always have."""
        source = self.checkpoint("zero2_dp2")
        result = self.run_program("ucprun", "convert", self.folder / "nothing", self.out, "--to", "universal",
                                  "--quiet")  # fmt: skip
        self.assert_refused(result, 2, "nothing")
        result = self.run_program("ucprun", "verify", source, "--same", self.checkpoint("zero1_dp1"), "--quiet")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (3, "", ""))
        result = self.run_program("ucprun", "convrt", "a", "--quiet")
        self.assertEqual(result.returncode, 1)
        self.assertIn("did you mean `convert`?", result.stderr)
        loud = self.run_program("ucpc", "check", self.spec(WARNED + "dim wrong = nobody\n")).stderr
        quiet = self.run_program("ucpc", "check", "a.ucp", "--quiet").stderr
        self.assertIn(": warning: ", loud)
        self.assertNotIn("warning: ", quiet)
        self.assertEqual(
            [line for line in quiet.splitlines() if "error: " in line],
            [line for line in loud.splitlines() if "error: " in line],
        )
        result = self.run_program("ucprun", "convert", "a", "b", "--to", "universal", "--quiet", "--verbose")
        self.assertEqual(result.stderr.splitlines()[0], "ucprun: error: --verbose and --quiet contradict each other")

    def test_help_of_a_subcommand(self) -> None:
        """Is what its --help prints, and that of the program without one."""
        for program in ("ucpc", "ucprun"):
            for command in self.subcommands(program):
                self.assertEqual(self.run_program(program, "help", command).stdout,
                                 self.run_program(program, command, "--help").stdout)  # fmt: skip
            self.assertEqual(self.run_program(program, "help").stdout, self.run_program(program, "--help").stdout)
            result = self.run_program(program, "help", "compltion")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("there is no subcommand `compltion`; did you mean `completion`?", result.stderr)
            completed = self.run_program(program, "completion", "words", "help", "").stdout
            self.assertEqual([line.split("\t")[0] for line in completed.splitlines()], self.subcommands(program))

    def test_version(self) -> None:
        """Also in one letter."""
        for program in ("ucpc", "ucprun"):
            versions = [self.run_program(program, word).stdout for word in ("-V", "--version")]
            self.assertRegex(versions[0], rf"^{program} \d")
            self.assertEqual(versions[0], versions[1])

    def test_a_subcommand_that_is_misspelt(self) -> None:
        """Is named before any of its options, which the program does not have, either."""
        for program in ("ucpc", "ucprun"):
            for command in self.subcommands(program):
                options = re.findall(
                    r"^  (?:-\w,)?(--[a-z-]+)", self.run_program(program, command, "--help").stdout, re.MULTILINE
                )
                for option in ("--nonsense", "--help", *options[::4]):
                    result = self.run_program(program, command + "x", "a", option, "b")
                    self.assertEqual(result.returncode, 1)
                    self.assertIn(f"there is no subcommand `{command}x`; did you mean `{command}`?", result.stderr)
        for words in (("--color", "never", "conver", "a", "--to", "b"), ("--quiet", "conver", "--to=b")):
            self.assertIn("did you mean `convert`?", self.run_program("ucprun", *words).stderr)


if __name__ == "__main__":
    unittest.main()
