"""A source that is exchanged while a run stands still, just behind the headers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from failures import FailureTest


def state_of(process: int) -> str:
    """As the system calls it: T is stopped."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


class ChangedSource(FailureTest):
    """Equal size and equal time do not hide it."""

    def test_between_headers_and_data(self) -> None:
        """Stopped at the first call about a hidden file of the destination, which comes behind planning."""
        self.prepare(self.checkpoint("zero1_dp2"), "--to", "universal", "--threads", 1, "--ignore-crc")
        environment = os.environ | self.going_wrong(1, f"S{signal.SIGSTOP}")
        environment |= {"UCP_FAILING_CALL_UNDER": str(self.folder / ".out")}
        self.replace_out(None)
        run = subprocess.Popen(
            self.command(),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while state_of(run.pid) != "T":
            time.sleep(0.01)
        changed = sorted(self.source.rglob("*optim_states.pt"))[0]
        shutil.copy2(changed, self.folder / "copy")
        os.replace(self.folder / "copy", changed)
        run.send_signal(signal.SIGCONT)
        _, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 2, stderr)
        self.assertEqual(
            stderr,
            f"ucprun: error: `{changed}` was changed between the reading of its header and the "
            "reading of its data, so the result may mix two checkpoints and is discarded; begin "
            f"again when nothing writes to `{changed.parent}`\n",
        )
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
