"""save_timeline.py WORK OUT.svg: a picture of a training loop with a save in it, from a run of one.

A step is some work of Python and a pause, as a GPU's work is for the processor, and then an optimizer's step that
changes all tensors. Beside the loop, one save goes on. The rows say when the job was where, and how far the save was.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build/release/python"))

Spans = list[tuple[float, float]]

WIDTH, LEFT, HEIGHT, GAP = 1000, 150, 22, 10
COLOURS = {"forward, backward": "#cfe3cf", "optimizer": "#4e79a7", "waits": "#e15759", "call": "#e15759",
           "staging": "#f1ce63", "plan, write, sync": "#d7b5d8"}  # fmt: skip


def run(work: Path, tensors: int = 144, steps: int = 14) -> dict[str, Spans]:
    """The spans of each kind, in seconds from the beginning of the loop."""
    import torch
    from save import a_step

    import ucp_checkpoint as ucp

    torch.set_num_threads(1)
    state = {f"blocks.{number}.weight": torch.zeros(915, 1024) for number in range(tensors)}
    saver = ucp.Saver({"model": state}, to="dcp", no_dist=True)
    saver.save(work / "first").result()  # Pages of the tensors and of files are there.
    found: dict[str, Spans] = {name: [] for name in COLOURS}
    begin = time.perf_counter()
    threads: list[threading.Thread] = []

    def now() -> float:
        return time.perf_counter() - begin

    def watch(saving: ucp.Saving, called: float) -> None:
        saving.staged.result()
        staged = now()
        saving.result()
        found["staging"].append((called, staged))
        found["plan, write, sync"].append((staged, now()))

    saving = None
    for step in range(steps):
        at = now()
        a_step()
        found["forward, backward"].append((at, now()))
        at = now()
        if saving is not None and not saving.staged.done():
            saving.staged.result()
            found["waits"].append((at, now()))
        at = now()
        for tensor in state.values():
            tensor[0, 0] += 1
        found["optimizer"].append((at, now()))
        if step == 2:
            at = now()
            saving = saver.save(work / "second")
            found["call"].append((at, now()))
            threads.append(threading.Thread(target=watch, args=(saving, now())))
            threads[-1].start()
    for thread in threads:
        thread.join()
    saver.close()
    return found


def drawn(found: dict[str, Spans]) -> str:
    """As SVG."""
    rows = {"the job": ("forward, backward", "optimizer"), "the job, for the save": ("call", "waits"),
            "the rank's thread": ("staging",), "the writer": ("plan, write, sync",)}  # fmt: skip
    end = max(span[1] for spans in found.values() for span in spans)
    scale = (WIDTH - LEFT - 10) / end
    height = (len(rows) + 2) * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>']  # fmt: skip

    def box(x: float, y: float, width: float, colour: str) -> None:
        out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.7):.1f}" height="{HEIGHT}" fill="{colour}"/>')

    def text(x: float, y: float, words: str, anchor: str = "start") -> None:
        out.append(f'<text x="{x:.1f}" y="{y + HEIGHT - 7:.1f}" text-anchor="{anchor}">{escape(words)}</text>')

    y = float(GAP)
    for name, kinds in rows.items():
        text(4, y, name)
        for kind in kinds:
            for first, last in found[kind]:
                box(LEFT + first * scale, y, (last - first) * scale, COLOURS[kind])
        y += HEIGHT + GAP
    x = float(LEFT)
    for kind, colour in list(COLOURS.items()):
        if kind == "call":
            continue
        box(x, y, 14, colour)
        text(x + 20, y, "call, waits" if kind == "waits" else kind)
        x += 60 + 6.5 * len(kind)
    y += HEIGHT
    text(LEFT, y, "0")
    text(WIDTH - 10, y, f"{end * 1000:.0f} ms", "end")
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    """Prints how long each kind took."""
    work, picture = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    found = run(work)
    shutil.rmtree(work)
    picture.write_text(drawn(found))
    for kind, spans in found.items():
        print(f"{kind:20} {len(spans):3} times, {sum(last - first for first, last in spans) * 1000:8.1f} ms")


if __name__ == "__main__":
    main()
