"""Every allocation of a real run fails once, alone or with all after it. A test run takes a sample of them."""

from __future__ import annotations

import os
import resource
import subprocess
import unittest
from collections.abc import Sequence

from failures import LIBRARY, FailureTest, Wrong, some_of, told

from programs import GPT_SPEC, PROGRAMS, SOURCE, all_files

ALLOCATIONS = LIBRARY.with_name("libucp_failing_allocation.so")
SAMPLE = 12  # Allocations for each way to fail, and the last ones.
ALONE, WITH_ALL_AFTER = "", "+"
GPT = SOURCE / "tests" / "fixtures" / "gpt_pp2_tp2_dp2" / "checkpoint"
NO_MEMORY = "there is not enough memory: "
NO_MEMORY_FOR_A_CALL = "cannot allocate memory"  # The system's words, of a call such as opendir().
MIB = 1 << 20


class FailingAllocations(FailureTest):
    """One sentence and an exit code of docs/programs.md, nothing torn, and one more run finishes."""

    def going_wrong(self, call: int, what: str) -> dict[str, str]:
        """The environment that lets an allocation fail."""
        return {
            "LD_PRELOAD": str(ALLOCATIONS),
            "UCP_FAILING_ALLOCATION": f"{call}{what}",
            "UCP_FAILING_ALLOCATION_LOG": str(self.folder / "call.log"),
        }

    def fails(self, command: Sequence[object], call: int, what: str) -> Wrong:
        """Of any command."""
        return self.run_wrong([str(word) for word in command], self.going_wrong(call, what), os.environ)

    def calls(self, command: Sequence[object], what: str) -> tuple[Wrong, list[int]]:
        """The command as it is when nothing fails, and which allocations fail."""
        whole = self.fails(command, 1 << 40, what)
        self.assertGreater(whole.calls, 1000, command)
        sample = some_of(range(1, whole.calls + 1), (command[1], what), SAMPLE)
        return whole, sorted({*sample, *range(max(1, whole.calls - 3), whole.calls + 1)})

    def assert_sentence(self, wrong: Wrong, where: str) -> None:
        """Exit code 1, or 2 where the system refused a call for want of memory; and one sentence."""
        errors = [line for line in wrong.result.stderr.splitlines() if ": error: " in line]
        self.assertEqual(len(errors), 1, f"{where}: {wrong.result.stderr}")
        of_a_call = NO_MEMORY_FOR_A_CALL in errors[0]
        self.assertEqual(wrong.result.returncode, 2 if of_a_call else 1, f"{where}: {wrong.result.stderr}")
        self.assertTrue(of_a_call or NO_MEMORY in errors[0], f"{where}: {wrong.result.stderr}")
        for word in ("std::", "terminate called", "LLVM ERROR", "bad_alloc"):
            self.assertNotIn(word, wrong.result.stderr, where)

    def converts(self, *arguments: object) -> None:
        """A conversion, and the run after each that failed: a plain one, or one that goes on."""
        for what in (ALONE, WITH_ALL_AFTER):
            self.replace_out(None)
            _, calls = self.calls(self.command(), what)
            for call in told(f"{self.id()}, {what or 'alone'}", calls, calls[-4:]):
                self.replace_out(None)
                wrong = self.fails(self.command(), call, what)
                where = f"allocation {call}{what} of {arguments}: {wrong.where}"
                if wrong.result.returncode != 0:  # With several threads there may be one allocation less.
                    self.assert_sentence(wrong, where)
                if wrong.result.returncode == 0 or "is complete, but" in wrong.result.stderr:
                    self.assert_complete(where)
                if self.out.exists():
                    self.assert_complete(where)
                self.assert_finished_by(where, *(["--resume"] if call % 2 == 0 or self.out.exists() else []))

    def test_a_conversion(self) -> None:
        """By one thread and by several, to few files and to many."""
        self.prepare(self.checkpoint("zero1_dp2"), "--to", "safetensors:states=all", "--threads", 1)
        self.converts("safetensors")
        self.prepare(self.checkpoint("zero2_dp4"), "--to", "universal", "--threads", 3)
        self.converts("universal")

    def test_what_converts_nothing(self) -> None:
        """The output of a run in which nothing fails, or a sentence. A file is there as a whole or not at all."""
        converted = self.folder / "converted"
        source = self.checkpoint("zero2_dp4")
        self.assertEqual(self.run_program("ucprun", "convert", source, converted, "--to", "universal").returncode, 0)
        plan = self.folder / "run.plan"
        for command in (
            ("ucprun", "verify", converted, "--same", source, "--threads", 2),
            ("ucprun", "load", source, "--to", "deepspeed:dp=2,zero=1", "--rank", 1, "--threads", 2),
            ("ucprun", "diff", converted, source, "--json"),
            ("ucprun", "bench", self.folder, "--size", "4MiB"),
            ("ucprun", "inspect", source, "--json"),
            ("ucprun", "trace", source, "embed.weight[1,2]"),
            ("ucpc", "check", GPT_SPEC, "--from", GPT),
            ("ucpc", "plan", GPT_SPEC, "--from", GPT, "--to", "universal", "-o", plan),
            ("ucpc", "explain", GPT_SPEC, "--from", GPT),
            ("ucpc", "infer", GPT),
            (
                "ucpc",
                "test",
                GPT_SPEC,
                "--seconds",
                0,
                "--set=layers=2",
                "--set=hidden=4",
                "--set=heads=2",
                "--set=ffn=4",
                "--set=vocab=4",
                "--set=seq=2",
                "--set=grain=2",
            ),
            ("ucpc", "fmt", "--check", GPT_SPEC),
        ):
            self.prints([PROGRAMS / command[0], *command[1:]], plan)

    def prints(self, command: list[object], plan: object) -> None:
        """One of them."""
        for what in (ALONE, WITH_ALL_AFTER):
            plan.unlink(missing_ok=True)
            whole, calls = self.calls(command, what)
            self.assertIn(whole.result.returncode, (0, 3), whole.result.stderr)
            made = plan.read_bytes() if plan.exists() else None
            for call in told(f"{self.id()}, {command[1]}, {what or 'alone'}", calls, calls[-4:]):
                plan.unlink(missing_ok=True)
                wrong = self.fails(command, call, what)
                where = f"allocation {call}{what} of {command[1]}: {wrong.where}"
                if wrong.result.returncode != whole.result.returncode:
                    self.assert_sentence(wrong, where)
                elif command[1] not in ("load", "bench"):  # Those two tell how long they took.
                    self.assertEqual(wrong.result.stdout, whole.result.stdout, where)
                if plan.exists():
                    self.assertEqual(plan.read_bytes(), made, where)
                left = [path.name for path in self.folder.iterdir() if "plan" in path.name]
                self.assertLessEqual(set(left), {"run.plan"}, where)


class LittleMemory(FailureTest):
    """A limit on the address space, as `ulimit -v` sets it: a run gets in, or nothing was begun."""

    def test_around_every_limit_at_which_it_gets_in(self) -> None:
        """Memory is asked for before a run begins. The loader reports failures before main() begins."""
        self.prepare(self.checkpoint("zero2_dp4"), "--to", "universal", "--threads", 2)
        completed = refused = 0
        for mib in range(40, 132, 4):
            self.replace_out(None)
            result = subprocess.run(self.command(), cwd=self.folder, capture_output=True, text=True, timeout=120,
                                    check=False, preexec_fn=lambda mib=mib: resource.setrlimit(
                                        resource.RLIMIT_AS, (mib * MIB, mib * MIB)))  # fmt: skip
            where = f"{mib} MiB: {result.stderr}"
            if result.returncode == 0:
                completed += 1
                self.assertEqual(all_files(self.out), self.expected, where)
                continue
            refused += 1
            self.assertEqual(result.returncode, 1, where)
            self.assertRegex(result.stderr, f"^ucprun: error: {NO_MEMORY}[^\n]*\n$", where)
            self.assertEqual([path.name for path in self.folder.iterdir() if "out" in path.name], [], where)
        self.assertGreater(completed, 2)
        self.assertGreater(refused, 2)


if __name__ == "__main__":
    unittest.main()
