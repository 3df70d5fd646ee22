"""Every system call of a conversion goes wrong once. A test run takes a sample of them, UCP_CALLS=all takes all."""

from __future__ import annotations

import errno
import os
import unittest

from failures import FailureTest, some_of, told

from programs import all_files

SAMPLE = 8  # Calls for each way to go wrong, and the last ones.
FATAL = (errno.EIO, errno.ENOSPC, errno.ENOENT, errno.EACCES)


class FailingCalls(FailureTest):
    """Whatever fails, the destination is what it was or complete, and one more run finishes."""

    def calls(self, what: str, *more: object) -> list[int]:
        """The calls that fail."""
        self.replace_out(None)
        count = self.wrong(1 << 40, what, *more).calls
        self.assertGreater(count, 20, what)
        # The last calls are those of the commit.
        return sorted({*some_of(range(1, count + 1), what, SAMPLE), count - 6, count - 4, count - 2, count})

    def goes_wrong(self, what: str, *more: object, old: dict[str, bytes] | None = None) -> None:
        """Each of the calls, and a run after each: a plain one, or one that goes on."""
        calls = self.calls(what, *more)
        for call in told(f"{self.id()}, {what}", calls, calls[-4:]):
            self.replace_out(old)
            wrong = self.wrong(call, what, *more)
            self.assertTrue(wrong.happened, call)
            if wrong.result.returncode != 0:
                self.assert_one_sentence(wrong)
            if wrong.result.returncode == 0 or "is complete, but" in wrong.result.stderr:
                self.assert_complete(wrong.where)
            elif old is None:
                self.assertFalse(self.out.exists(), wrong.where)
            else:
                self.assertEqual(all_files(self.out), old, wrong.where)
            then = ["--resume"] if call % 2 == 0 or (self.out.exists() and old is None) else []
            self.assert_finished_by(wrong.where, *more, *then)

    def test_without_a_destination(self) -> None:
        """A device that fails, a disk that is full, a file that is gone, one that may not be touched."""
        self.prepare(self.checkpoint("zero1_dp2"), "--to", "safetensors:states=all", "--threads", 1)
        for error in FATAL:
            self.goes_wrong(str(error))

    def test_with_an_old_destination(self) -> None:
        """--force: the old one stays until the new one is there."""
        source = self.checkpoint("zero1_dp2")
        self.prepare(source, "--to", "universal")
        old = self.expected
        self.prepare(source, "--to", "safetensors:states=all", "--threads", 1)
        self.goes_wrong(str(errno.EIO), "--force", old=old)

    def test_past_the_page_cache(self) -> None:
        """Pieces that are large enough for it, beside small ones."""
        source = self.folder / "large"
        sizes = {"layers": 1, "hidden": 192, "heads": 4, "ffn": 768, "vocab": 1000, "seq": 8}
        made = self.run_program("ucprun", "synth", "megatron_deepspeed_gpt", source, "--to", "deepspeed:dp=2,zero=1",
                                *(f"--set={name}={value}" for name, value in sizes.items()))  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        self.prepare(source, "--to", "universal", "--threads", 1, "--io", "direct")
        self.goes_wrong(str(errno.EIO))
        if not self.has_direct_files():
            self.skipTest(f"the file system of {self.folder} has no direct input and output")
        # A file system that refuses in the middle of the work, with one of the two, is left to the page cache.
        for name in ("preadv", "pwrite"):
            self.only_direct(name)
            for what in (str(errno.EINTR), "SHORT", str(errno.EINVAL), str(errno.EOPNOTSUPP)):
                self.replace_out(None)
                count = self.wrong(1 << 40, what).calls
                self.assertGreater(count, 4)
                for call in told(f"{self.id()}, {name}, {what}", some_of(range(1, count + 1), what, SAMPLE // 2)):
                    self.assertEqual(self.ordinary(call, what), name)

    def has_direct_files(self) -> bool:
        """Tmpfs has them in newer systems only."""
        file = self.folder / "direct"
        file.touch()
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
        return True

    def ordinary(self, call: int, what: str) -> str:
        """The call that was gone on from."""
        self.replace_out(None)
        wrong = self.wrong(call, what)
        self.assertEqual((wrong.result.returncode, wrong.result.stderr), (0, ""), f"{what}: {wrong.where}")
        self.assert_complete(f"{what}: {wrong.where}")
        return wrong.call

    def test_many_files(self) -> None:
        """So many that their file system is synced as a whole, where it can be; on tmpfs it is."""
        source = self.folder / "many"
        sizes = {"layers": 1, "experts": 20, "hidden": 8, "heads": 2, "kv_heads": 2, "head": 4, "ffn": 8, "vocab": 16}
        settings = [f"--set={name}={value}" for name, value in sizes.items()]
        made = self.run_program("ucprun", "synth", "mixtral_per_expert", source, "--to", "deepspeed:dp=2,zero=1",
                                *settings)  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        self.prepare(source, "--to", "universal", "--threads", 1)
        self.assertGreater(len(self.expected), 256)
        self.goes_wrong(str(errno.EIO))

    def test_what_is_no_error(self) -> None:
        """A signal in a call, and a read or write that moves one byte only, are gone on from."""
        self.prepare(self.checkpoint("zero1_dp2"), "--to", "safetensors:states=all", "--threads", 1)
        for what in (str(errno.EINTR), "SHORT"):
            for call in told(f"{self.id()}, {what}", self.calls(what)):
                self.assertNotEqual(self.ordinary(call, what), "none", call)

    def test_a_name_that_is_gone_when_it_is_looked_at(self) -> None:
        """A folder was read to have it. It is looked at once more, and has not become a file of another kind."""
        self.prepare(self.checkpoint("zero2_dp4"), "--to", "deepspeed:dp=4,zero=3", "--threads", 1)
        self.counted = {"UCP_FAILING_CALL_NAME": "fstatat"}
        gone = str(errno.ENOENT)
        self.replace_out(None)
        count = self.wrong(1 << 40, gone).calls
        self.assertGreater(count, 10)
        for call in range(1, count + 1):
            self.ordinary(call, gone)


if __name__ == "__main__":
    unittest.main()
