"""A job of one process that ends in the way that its argument says, and never closes its Saver."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import torch

import ucp_checkpoint as ucp
from writers import supervisor_of, worker_of


def begun(path: str) -> tuple[ucp.Saver, ucp.Saving]:
    """A save that is not finished yet."""
    saver = ucp.Saver({"weight": torch.ones(1 << 22)}, threads=1)
    return saver, saver.save(path)


def interrupted(path: str) -> None:
    """Ctrl-C while it waits for what never happens."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ucp.save({"weight": torch.ones(3)}, path)
    saver = ucp.Saver({"weight": torch.ones(3)})
    worker = worker_of(supervisor_of(os.getpid()))
    os.kill(worker, signal.SIGSTOP)
    waiting = saver.save(path + "_other")
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        waiting.result()
    except KeyboardInterrupt:
        os.kill(worker, signal.SIGCONT)
        sys.stdout.write(f"interrupted {time.monotonic() - begin < 5} {waiting.result()['target_format']}\n")
    saver.close()


def main(how: str, path: str) -> None:
    """A user's script."""
    if how == "interrupt":
        interrupted(path)
    saver, saving = begun(path) if how != "interrupt" else (None, None)
    if how == "raise":
        raise ValueError("of the job")
    if how == "raise within":
        with saver:
            raise ValueError("of the job")
    if how == "fail":
        saver.save("/no/such/folder")
    if how == "exit":
        sys.exit(3)
    if how == "daemon":
        threading.Thread(target=saving.result, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
