"""Command lines that are wrong, one sentence each, and `--help` on a terminal of 80 columns."""

from __future__ import annotations

import json
import re
import subprocess
import unittest

from programs import PROGRAMS, ProgramTest

SUBCOMMAND = re.compile(r"^  ([a-z][a-z-]*)", re.MULTILINE)


class Usage(ProgramTest):
    """Of both programs."""

    def subcommands(self, program: str) -> list[str]:
        """As the program's own help lists them."""
        return SUBCOMMAND.findall(self.run_program(program, "--help").stdout.split("Subcommands:")[1].split("\n\n")[0])

    def refused(self, *words: str) -> str:
        """The sentence, behind the program's name."""
        result = self.run_program(*words)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        lines = result.stderr.splitlines()
        self.assertLessEqual(len(lines), 2, lines)
        program, _, sentence = lines[0].partition(": error: ")
        self.assertEqual(program, words[0])
        for line in lines[1:]:
            self.assertRegex(line, rf"^See `{words[0]}( [a-z-]+)? --help`\.$")
        return sentence

    def test_every_help_fits_into_80_columns(self) -> None:
        """And has what the command is for, its options and an example."""
        for program in ("ucpc", "ucprun"):
            commands = self.subcommands(program)
            self.assertGreater(len(commands), 8)
            for words in ([], *([command] for command in commands)):
                shown = self.run_program(program, *words, "--help").stdout
                wide = [line for line in shown.splitlines() if len(line) > 80]
                self.assertEqual(wide, [], words)
                called = " ".join([program, *words])
                self.assertIn(f"Usage: {called} ", shown)
                self.assertIn(f"{called} ", shown.replace(f"Usage: {called}", ""), "there is no example")
                self.assertNotIn(" \n", shown)

    def test_an_option_that_is_misspelt(self) -> None:
        """The nearest one is named, of every command of both programs, whatever else is missing then."""
        for program in ("ucpc", "ucprun"):
            for command in self.subcommands(program):
                options = re.findall(
                    r"^  (?:-\w,)?(--[a-z-]+)", self.run_program(program, command, "--help").stdout, re.MULTILINE
                )
                for option in options:
                    misspelt = f"{option}{option[-1]}"
                    if misspelt in options:
                        continue
                    sentence = self.refused(program, command, misspelt)
                    self.assertRegex(sentence, rf"^`{program} {command}` has no option `{misspelt}`; did you mean `--")
                self.assertEqual(
                    self.refused(program, command, "--quite-another=3"),
                    f"`{program} {command}` has no option `--quite-another`",
                )
        self.assertEqual(
            self.refused("ucprun", "load", "in", "--too", "universal"),
            "`ucprun load` has no option `--too`; did you mean `--to`?",
        )
        self.assertEqual(
            self.refused("ucprun", "load", "in", "-to", "universal"),
            "`ucprun load` has no option `-to`; did you mean `--to`?",
        )

    def test_what_is_missing_and_what_is_too_much(self) -> None:
        """Named as it is typed."""
        for words, sentence in (
            (
                "",
                "name what to do: convert, run, load, inspect, verify, diff, trace, synth, bench, memory, cluster, "
                "coordinate, simulate, completion, help",
            ),
            ("inspekt in", "there is no subcommand `inspekt`; did you mean `inspect`?"),
            (
                "--force inspect in",
                "`--force` is an option of a subcommand, and stands behind it: `ucprun SUBCOMMAND --force`",
            ),
            ("convert", "`ucprun convert` needs CHECKPOINT and OUT and --to STRATEGY"),
            ("convert in out", "`ucprun convert` needs --to STRATEGY"),
            ("inspect in out", "`ucprun inspect` has no place for `out`; it takes CHECKPOINT"),
            ("convert in out --to", "a value is missing: --to STRATEGY"),
            ("load in --to universal --rank 1 --rank 2", "--rank is given 2 times, and takes one value"),
        ):
            self.assertEqual(self.refused("ucprun", *words.split()), sentence)

    def test_values(self) -> None:
        """The option, what it takes, and what was given."""
        run = "convert in out --to universal"
        for words, sentence in (
            ("load in --to universal --rank abc", "--rank takes a whole number from 0 to 16777216, not `abc`"),
            ("load in --to universal --rank -1", "--rank takes a whole number from 0 to 16777216, not `-1`"),
            ("load in --to universal --rank 1.5", "--rank takes a whole number from 0 to 16777216, not `1.5`"),
            (f"{run} --threads 0", "--threads takes a whole number from 1 to 256, not `0`"),
            (
                f"{run} --threads 99999999999999999999",
                "--threads takes a whole number from 1 to 256, not `99999999999999999999`",
            ),
            (f"{run} --journal-every nan", "--journal-every takes a number from 0 to 86400, not `nan`"),
            ("load in --to --compare", "--to takes a value, and `--compare` is another option"),
            (f"{run} --replicas both", "--replicas takes compare or trust, not `both`"),
            (f"{run} --tag ../x", "--tag takes the name of a folder, without `/` and of at most 245 bytes, not `../x`"),
            (
                "load in --to universal --tag ..",
                "--tag takes the name of a folder, without `/` and of at most 245 bytes, not `..`",
            ),
        ):
            self.assertEqual(self.refused("ucprun", *words.split()), sentence)
        self.assertEqual(
            self.refused("ucpc", "test", "gpt.ucp", "--seed", "-1"),
            f"--seed takes a whole number from 0 to {2**63 - 1}, not `-1`",
        )

    def test_an_option_takes_one_word(self) -> None:
        """A word behind its value is an argument of the command, also for options that may be repeated."""
        source = self.checkpoint("zero1_dp2")
        self.assert_done(
            self.run_program("ucprun", "convert", "--drop-state", "exp_avg", source, self.out, "--to", "universal")
        )
        self.assertEqual(list(self.out.rglob("exp_avg.pt")), [])

    def test_options_of_other_targets(self) -> None:
        """Those that would do nothing are refused."""
        source = self.checkpoint("zero1_dp2")
        native = "goes with the native files of a job"
        training = "goes with targets that hold the training state"
        for target, option, sentence in (
            ("universal", ("--ds-config", "ds_config.json"), f"--ds-config {native}; `universal`"),
            ("safetensors", ("--ds-config", "ds_config.json"), f"--ds-config {native}; `safetensors`"),
            ("safetensors", ("--keep-opaque", "some.Class"), f"--keep-opaque {training}; `safetensors`"),
        ):
            for command in (("convert", source, self.out), ("load", source)):
                result = self.run_program("ucprun", *command, "--to", target, *option)
                self.assert_refused(result, 1, sentence)

    def test_a_pattern_that_fits_no_name(self) -> None:
        """Nothing is printed, as if all had been asked for and the checkpoint had no tensor."""
        source = self.checkpoint("zero1_dp2")
        for words in (["ucprun", "inspect", source], ["ucprun", "inspect", source, "--json"],
                      ["ucprun", "diff", source, source], ["ucpc", "explain", "--from", source]):  # fmt: skip
            with self.subTest(words=words):
                result = self.run_program(*words, "--tensor", "nope.*")
                self.assertEqual(result.returncode, 1, result.stderr)
                lines = result.stderr.splitlines()
                self.assertRegex(lines[-1], r"^ucpr?[uc]n?: error: no(ne| tensor).* fits `nope\.\*`")
                if "--json" in words:
                    self.assertEqual(json.loads(result.stdout)["error"]["code"], "usage")
                else:
                    self.assertEqual(result.stdout, "")
        self.assertEqual(
            self.refused("ucprun", "inspect", source, "--tensor", "nope.*"),
            f"none of the 17 tensors in `{source}/global_step4` has a name that fits `nope.*`",
        )
        found = self.run_program("ucprun", "inspect", source, "--tensor", "ton?")
        self.assertEqual(found.returncode, 0)
        self.assertEqual(found.stdout.splitlines()[2], "tensors   1 of 17: 1 parameter of 3 elements")

    def test_files_in_a_folder_that_is_not_there(self) -> None:
        """The system's reason ends the sentence in lower case, whichever option named the file."""
        source = self.checkpoint("zero1_dp2")
        missing = self.folder / "missing" / "file"
        convert = ("ucprun", "convert", source, self.out, "--to", "universal")
        for words in (("ucpc", "plan", "--from", source, "--to", "universal", "-o"), ("ucpc", "infer", source, "-o"),
                      ("ucpc", "explain", "--from", source, "--html"), (*convert, "--events"),
                      (*convert, "--timeline"), (*convert, "--ceilings")):  # fmt: skip
            with self.subTest(words=words):
                result = self.run_program(*words, missing)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertRegex(
                    result.stderr.splitlines()[-1],
                    rf"^ucpr?[uc]n?: error: cannot .*`{missing}`: no such file or directory$",
                )

    def test_what_fsdp_saved(self) -> None:
        """A folder of torch.distributed.checkpoint that is damaged, and one of a save that did not finish."""
        place = self.folder / "epoch=0.ckpt"
        place.mkdir()
        for name in (".metadata", "__0_0.distcp", "meta.pt"):
            (place / name).write_bytes(b"PK")
        for path in (place, place / "meta.pt"):
            result = self.run_program("ucprun", "inspect", path)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(f"`{place}/.metadata`: byte 0 of the pickle: it does not begin", result.stderr)
        (place / ".metadata").rename(place / ".metadata.tmp")
        result = self.run_program("ucprun", "inspect", place)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"`{place}` holds `.metadata.tmp` and no `.metadata`", result.stderr)

    def test_empty_words(self) -> None:
        """A variable that is not set is not taken for an option that was not given."""
        source = self.checkpoint("zero1_dp2")
        for words, said in (
            (["verify", source, "--same", ""], "word 4 of the command line is empty: what stands after `--same`"),
            (["verify", source, "--same="], "`--same` takes a value, and what stands behind its `=` is empty"),
            (["convert", source, "", "--to", "universal"], f"word 3 of the command line is empty: what stands after "
                                                           f"`{source}`"),
            ([""], "word 1 of the command line is empty"),
        ):  # fmt: skip
            result = self.run_program("ucprun", *words)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", f"ucprun: error: {said}\n"))
            result = self.run_program("ucprun", *words, "--json")
            self.assertEqual(json.loads(result.stdout)["error"], {"code": "usage", "message": said})

    def test_means_that_there_are_not(self) -> None:
        """In the words of the help."""
        for value in ("fast", "1"):
            result = self.run_program("ucprun", "convert", "a", "b", "--to", "universal", "--io", value)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"--io takes auto, buffered or direct, not `{value}`", result.stderr)

    def test_what_cannot_be_printed(self) -> None:
        """A full disk is reported once; a reader that has seen enough is not a failure."""
        source = self.checkpoint("zero1_dp2")
        for words in (["--help"], ["load", "--help"], ["--version"], ["inspect", source], ["inspect", source, "--json"],
                      ["verify", source, "--json"], ["diff", source, source, "--json"]):  # fmt: skip
            with open("/dev/full", "w") as full:
                result = subprocess.run(
                    [PROGRAMS / "ucprun", *words],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=60,
                    check=False,
                )
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr.count("cannot write to standard output: no space left on device"), 1, words)
        piped = subprocess.run(
            f"{PROGRAMS}/ucprun load --help | true; exit ${{PIPESTATUS[0]}}",
            shell=True,
            executable="/bin/bash",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
