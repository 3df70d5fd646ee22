"""A picture of horizontal bars, in groups that each have a scale of their own."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

LEFT, WIDTH, STEP = 250, 320, 20


@dataclass(frozen=True)
class Bar:
    """A value, what it is of, and the words behind it."""

    name: str
    value: float
    words: str
    colour: str


def draw(groups: dict[str, list[Bar]]) -> str:
    """Each group under its title."""
    parts, y = [], 22
    for title, bars in groups.items():
        parts.append(f'<text x="14" y="{y}" font-weight="bold">{escape(title)}</text>')
        largest = max(bar.value for bar in bars)
        for bar in bars:
            y += STEP
            width = max(WIDTH * bar.value / largest, 1)
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(bar.name)}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y - 7}" width="{width:.1f}" height="14" fill="{bar.colour}"/>')
            parts.append(f'<text x="{LEFT + width + 8:.1f}" y="{y + 4}">{escape(bar.words)}</text>')
        y += 2 * STEP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y - 20}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13" fill="#777">', *parts, "</svg>"]) + "\n"
