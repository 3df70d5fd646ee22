"""The picture of figures 7 to 9: the losses, and for each type of numbers how far each resumed run is off."""

from __future__ import annotations

import math

from curve_runs import Curve

from continuation import COLOURS, Panel

MARKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
LOWER = {"fp32": "float32", "bf16": "bfloat16"}
GREY = "#999"


def names_of(curves: list[Curve]) -> dict[tuple[str, str], str]:
    """Of each change of layout, the words of the legend; all changes have the same end on one side, or none has."""
    if len({curve.source for curve in curves}) == 1:
        return {(curve.source, curve.target): f"to {curve.target}" for curve in curves}
    if len({curve.target for curve in curves}) == 1:
        return {(curve.source, curve.target): f"from {curve.source}" for curve in curves}
    return {(curve.source, curve.target): f"{curve.source} → {curve.target}" for curve in curves}


def losses(top: Panel, curves: list[Curve], colours: dict[tuple[str, str], str], saved: int) -> list[str]:
    """The upper panel, of the last type that the curves have."""
    ticks = [(math.log(mark), str(mark)) for mark in MARKS if top.low < math.log(mark) < top.high]
    parts = top.frame("loss, logarithmic", ticks, saved)
    for whole in {curve.source: curve.whole for curve in curves}.values():
        parts.append(top.line(0, list(map(math.log, whole)), f'stroke="{GREY}" stroke-width="5" stroke-opacity="0.4"'))
    for curve in curves:
        if curve.way == "convert":
            style = f'stroke="{colours[curve.source, curve.target]}" stroke-width="1.5"'
            parts.append(top.line(saved, list(map(math.log, curve.resumed)), style))
    return parts


def distances(top: int, curves: list[Curve], colours: dict[tuple[str, str], str], steps: int, saved: int) -> list[str]:
    """A lower panel: all curves of one type, and dashed the control that had the layout from the start."""
    reach = 1.15 * max(curve.furthest for curve in curves) or 1e-6
    panel = Panel(top, 100, steps, -reach, reach)
    ticks = [(-reach, f"{-reach:.2g}"), (0.0, "0"), (reach, f"{reach:.2g}")]
    parts = panel.frame(f"{LOWER[curves[0].dtype]}: loss minus that of the run that saved and went on", ticks, saved)
    for curve in curves:
        if curve.way == "never":
            parts.append(panel.line(saved, curve.off, f'stroke="{GREY}" stroke-dasharray="4 2"'))
        elif curve.way == "convert":
            style = f'stroke="{colours[curve.source, curve.target]}" stroke-width="1.5"'
            parts.append(panel.line(saved, curve.off, style))
    return parts


def width_of(text: str) -> float:
    """About so many units of the picture."""
    return sum(7.2 if letter.isupper() or letter.isdigit() else 6.2 for letter in text)


def legend(names: dict[tuple[str, str], str], colours: dict[tuple[str, str], str], has_control: bool) -> list[str]:
    """At the upper right, where losses leave room."""
    entries = [("saved after half of the steps, and went on", GREY, "5")]
    entries += [(name, colours[change], "2") for change, name in names.items() if change in colours]
    if has_control:
        entries.append(("had the first of these layouts from the start", GREY, '1" stroke-dasharray="4 2'))
    left = round(700 - max(map(width_of, (name for name, _, _ in entries))))
    parts = []
    for row, (name, colour, width) in enumerate(entries):
        y = 58 + 19 * row
        parts.append(f'<path d="M{left - 32} {y - 4}h24" stroke="{colour}" stroke-width="{width}"/>')
        parts.append(f'<text x="{left}" y="{y}">{name}</text>')
    return parts


def draw(curves: list[Curve]) -> str:
    """All panels."""
    steps, saved = len(curves[0].whole) - 1, len(curves[0].whole) - len(curves[0].resumed)
    changes = dict.fromkeys((curve.source, curve.target) for curve in curves if curve.way == "convert")
    colours = dict(zip(changes, COLOURS, strict=False))
    dtypes = list(dict.fromkeys(curve.dtype for curve in curves))
    shown = [curve for curve in curves if curve.dtype == dtypes[-1]]
    every = [math.log(loss) for curve in shown for loss in curve.whole + curve.resumed]
    upper = Panel(40, 250, steps, min(every) - 0.1, max(every) + 0.1)
    parts = losses(upper, shown, colours, saved)
    for row, dtype in enumerate(dtypes):
        of_type = [curve for curve in curves if curve.dtype == dtype]
        parts += distances(340 + 145 * row, of_type, colours, steps, saved)
    bottom = 340 + 145 * len(dtypes) - 22
    parts += legend(names_of(curves), colours, any(curve.way == "never" for curve in curves))
    parts.append(f'<text x="{upper.x(saved):.1f}" y="{bottom}" text-anchor="middle">step {saved}: converted</text>')
    parts.append(f'<text x="{upper.x(steps):.1f}" y="{bottom}" text-anchor="end">step {steps}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {bottom + 14}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13" fill="#777">', *parts, "</svg>"]) + "\n"
