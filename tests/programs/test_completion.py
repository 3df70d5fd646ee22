"""Completion: the scripts as shells run them, and what the programs answer them."""

from __future__ import annotations

import os
import shutil
import subprocess
import unittest

from programs import PROGRAMS, SOURCE, ProgramTest

# Completes the words behind the script in a shell that is not interactive, and prints the candidates.
BASH = """
source <({program} completion bash)
COMP_WORDS=({program} "${{@:1}}"); COMP_CWORD=$#
_{program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# zsh has no way to call a completion outside of its editor, so what it is built from stands in for it.
ZSH = """
compdef() {{ }}
_files() {{ print -l -- *(N) }}
_describe() {{ local entry; for entry in "${{(@P)2}}"; do print -r -- "${{entry%%:*}}"; done }}
source <({program} completion zsh)
words=({program} "$@"); CURRENT=${{#words}}
_{program}
"""
FISH = """
{program} completion fish | source
complete -C (string join -- ' ' {program} $argv) | string split -f1 \\t
"""


class Completion(ProgramTest):
    """In a folder with one spec and one folder."""

    def setUp(self) -> None:
        """The programs are on the path, as they are where they are installed."""
        super().setUp()
        (self.folder / "mine.ucp").write_text("ucp 1\n")
        (self.folder / "checkpoints").mkdir()
        self.environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(self.folder)}

    def in_shell(self, shell: str, script: str, program: str, *words: str) -> set[str]:
        """The words that the shell offers for the last of the words."""
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        command = {
            "bash": ["bash", "-c", script.format(program=program), "bash"],
            "zsh": ["zsh", "-f", "-c", script.format(program=program), "zsh"],
            "fish": ["fish", "--no-config", "-c", script.format(program=program)],
        }[shell]
        result = subprocess.run(
            [*command, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def check_shell(self, shell: str, script: str) -> None:
        """Subcommands, options, catalogue names, files."""
        subcommands = self.in_shell(shell, script, "ucpc", "ex")
        self.assertEqual(subcommands, {"explain", "explain-error"})
        self.assertEqual(self.in_shell(shell, script, "ucpc", "explain-error", "uneven"), {"uneven-cut"})
        specs = self.in_shell(shell, script, "ucpc", "check", "m")
        self.assertLessEqual({"mine.ucp", "megatron_deepspeed_gpt"}, specs)
        options = self.in_shell(shell, script, "ucprun", "convert", "checkpoints", "--dry")
        self.assertEqual(options, {"--dry-run"})

    def test_bash(self) -> None:
        """The function is called as readline would."""
        self.check_shell("bash", BASH)
        self.assertEqual(self.in_shell("bash", BASH, "ucprun", "inspect", ""), {"checkpoints"})

    def test_zsh(self) -> None:
        """With stand-ins for the functions that only the editor has."""
        self.check_shell("zsh", ZSH)

    def test_fish(self) -> None:
        """`complete -C` says what a user would be offered."""
        self.check_shell("fish", FISH)

    def words(self, program: str, *words: str) -> list[str]:
        """The program's answer to a script."""
        result = self.run_program(program, "completion", "words", *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [line.split("\t")[0] for line in result.stdout.splitlines()]

    def test_every_subcommand_and_option_is_offered(self) -> None:
        """As --help lists them: both come from one definition."""
        for program in ("ucpc", "ucprun"):
            shown = self.run_program(program, "--help").stdout.split("Subcommands:")[1]
            subcommands = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2] != " "]
            offered = [word for word in self.words(program, "") if not word.startswith(":")]
            self.assertTrue(set(subcommands) >= set(offered) and len(offered) > 3, f"{subcommands} {offered}")
            for command in offered:
                for option in self.words(program, command, "--"):
                    self.assertIn(option, self.run_program(program, command, "--help").stdout)

    def test_values(self) -> None:
        """The name of an option's value says what it is."""
        self.assertEqual(self.words("ucprun", "convert", "in", "out", "--replicas", ""), ["compare", "trust"])
        self.assertEqual(self.words("ucprun", "convert", "in", "out", "--io", ""), ["auto", "buffered", "direct"])
        self.assertEqual(self.words("ucprun", "convert", "in", "out", "--to", "u"), ["universal"])
        self.assertEqual(self.words("ucprun", "convert", "in", "out", "--set", ""), [])
        self.assertEqual(self.words("ucprun", "convert", "in", ""), [":folders"])
        self.assertEqual(self.words("ucprun", "convert", "in", "out", ""), [])
        self.assertEqual(self.words("ucpc", "fmt", "a.ucp", "b.ucp", ""), [":files"])
        self.assertEqual(self.words("ucpc", "completion", ""), ["bash", "zsh", "fish"])
        catalogue = {path.stem for path in (SOURCE / "specs").glob("*.ucp")}
        self.assertEqual({*self.words("ucprun", "convert", "--spec", "")}, catalogue | {":files"})

    def test_an_unknown_shell(self) -> None:
        """A sentence."""
        result = self.run_program("ucpc", "completion", "tcsh")
        self.assertEqual(result.returncode, 1)
        self.assertIn("bash, zsh and fish", result.stderr)


if __name__ == "__main__":
    unittest.main()
