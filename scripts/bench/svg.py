"""A plot as SVG: a panel a figure, in it a bar a contender up to its median, and a dot a round.

Written by hand, so that the report needs no library and looks the same everywhere.
"""

import html
import math

WIDTH = 760
LABEL_WIDTH = 190
VALUE_WIDTH = 110
ROW = 34
BAR = 18
HEAD = 44
PANEL_GAP = 18
FONT = "font-family='sans-serif'"
COLOURS = ("#2b6cb0", "#a0aec0", "#cbb48b", "#9fb8a4", "#b8a0b4", "#c7a69a")


def panel(title, unit, digits, rows, top):
    """One panel from `top` on. rows: (label, median, values). Returns (elements, height)."""
    largest = max([value for _, median, values in rows for value in [median, *values]] or [0])
    end = nice_ceiling(largest)
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / end
    parts = [text(0, top + 16, f"{title}, {unit}".rstrip(", "), size=15, weight="bold")]
    for tick in range(5):
        x = LABEL_WIDTH + end * tick / 4 * scale
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{top + HEAD - 8}' "
                     f"y2='{top + HEAD + ROW * len(rows)}' stroke='#e2e8f0'/>")
        parts.append(text(x, top + HEAD - 12, number(end * tick / 4, digits), size=11,
                          anchor="middle", colour="#718096"))
    for index, (label, median, values) in enumerate(rows):
        y = top + HEAD + ROW * index + (ROW - BAR) / 2
        middle = y + BAR / 2
        parts.append(text(LABEL_WIDTH - 8, middle + 4, label, anchor="end"))
        parts.append(f"<rect x='{LABEL_WIDTH}' y='{y:.1f}' width='{median * scale:.1f}' "
                     f"height='{BAR}' fill='{COLOURS[index % len(COLOURS)]}'/>")
        parts += [f"<circle cx='{LABEL_WIDTH + value * scale:.1f}' cy='{middle:.1f}' r='3' "
                  "fill='#1a202c' fill-opacity='0.55'/>" for value in values]
        reach = max([median, *values]) * scale
        parts.append(text(LABEL_WIDTH + reach + 8, middle + 4, number(median, digits)))
    return parts, HEAD + ROW * len(rows)


def plot(title, panels):
    """The SVG's text. panels: (title, unit, digits, rows) as panel() takes them."""
    parts, top = [text(0, 20, title, size=17, weight="bold")], 40
    for name, unit, digits, rows in panels:
        elements, height = panel(name, unit, digits, rows, top)
        parts += elements
        top += height + PANEL_GAP
    body = "\n".join(parts)
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-12 -4 {WIDTH + 24} {top + 4}' "
            f"width='{WIDTH + 24}' height='{top + 8}' role='img'>\n"
            f"<title>{html.escape(title)}</title>\n"
            f"<rect x='-12' y='-4' width='100%' height='100%' fill='white'/>\n{body}\n</svg>\n")


def text(x, y, content, size=13, anchor="start", weight="normal", colour="#1a202c"):
    return (f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' text-anchor='{anchor}' "
            f"font-weight='{weight}' fill='{colour}'>{html.escape(content)}</text>")


def number(value, digits):
    return f"{value:,.{digits}f}"


def nice_ceiling(value):
    """The next number of 1, 2, 2.5, 5 or 10 times a power of ten that is not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)
