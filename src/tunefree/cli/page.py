"""A self-contained HTML page: tables and drawings as SVG, no script, nothing from the network."""

from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .8rem .2rem 0; text-align: left;
       border-bottom: 1px solid #ddd; } td.n, th.n { text-align: right; font-variant-numeric:
       tabular-nums; } tr.chosen td { font-weight: 600; } .note { color: #555; }
svg { max-width: 100%; height: auto; } text { font: 12px system-ui, sans-serif; fill: #222; }
"""
_WIDTH, _LEFT, _BAR = 640, 210, 24
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888"


def page(title, sections):
    """The page as text.

    Parameters
    ----------
    title : str
    sections : list of (str, str)
        Headings and their HTML; an empty heading has none.

    Examples
    --------
    >>> "<h2>Scores</h2><p>.9</p>" in page("Model", [("Scores", "<p>.9</p>")])
    True
    """
    body = "".join((f"<h2>{escape(h)}</h2>" if h else "") + html for h, html in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def grid(head, rows, chosen=None):
    """A table; numbers are right-aligned, and one row may stand out."""

    def cell(tag, value, number):
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<{tag}{' class=n' if number else ''}>{escape(text)}</{tag}>"

    kinds = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    top = "".join(cell("th", h, k) for h, k in zip(head, kinds, strict=True))
    body = "".join(
        f"<tr{' class=chosen' if i == chosen else ''}>"
        + "".join(cell("td", v, k) for v, k in zip(row, kinds, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def bars(rows, unit, colour=BLUE):
    """Horizontal bars: (name, value, standard error or None); values below 0 go left."""
    reach = max((abs(v) + (e or 0.0) for _, v, e in rows), default=0.0) or 1.0
    signed = any(v < 0 for _, v, _ in rows)
    room = _WIDTH - _LEFT - 90
    zero = _LEFT + (room / 2 if signed else 0)
    scale = room / reach / (2 if signed else 1)
    out = []
    for i, (name, value, error) in enumerate(rows):
        y, end = i * _BAR, zero + scale * value
        out.append(
            f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect x="{min(zero, end):.1f}" y="{y + 4}" width="{abs(end - zero):.1f}" height="15" '
            f'fill="{colour}"/>'
        )
        tip = max(end, zero)
        if error:
            low, high = end - scale * error, end + scale * error
            tip = max(tip, high)
            out.append(
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 11}" y2="{y + 11}" '
                f'stroke="#222" stroke-width="1.5"/>'
            )
        out.append(f'<text x="{tip + 5:.1f}" y="{y + 16}">{value:.3g}</text>')
    height = len(rows) * _BAR + 20
    out.append(f'<text x="{zero:.1f}" y="{height - 4}" fill="{GREY}">{escape(unit)}</text>')
    return _svg(height, out)


def curves(lines, across, up, diagonal=False):
    """Lines over a common pair of axes, from {name: (x, y)}."""
    points = [(x, y) for xs, ys in lines.values() for x, y in zip(xs, ys, strict=True)]
    if not points:
        return ""
    x_low, x_high = (0.0, 1.0) if diagonal else (0.0, max(p[0] for p in points))
    y_low, y_high = (0.0, 1.0) if diagonal else (0.0, max(p[1] for p in points) * 1.05 or 1.0)
    left, bottom, top, right = 60, 260, 12, _WIDTH - 20

    def place(x, y):
        return (
            left + (right - left) * (x - x_low) / ((x_high - x_low) or 1.0),
            bottom - (bottom - top) * (y - y_low) / (y_high - y_low),
        )

    out = [
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="{GREY}"/>',
        f'<text x="{(left + right) / 2}" y="{bottom + 34}" text-anchor="middle">'
        f"{escape(across)}</text>",
        f'<text x="14" y="{(top + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(top + bottom) / 2})">{escape(up)}</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = x_low + share * (x_high - x_low), y_low + share * (y_high - y_low)
        out.append(
            f'<text x="{place(x, y_low)[0]:.1f}" y="{bottom + 16}" text-anchor="middle">{x:.4g}'
            f'</text><text x="{left - 6}" y="{place(x_low, y)[1] + 4:.1f}" text-anchor="end">'
            f"{y:.3g}</text>"
        )
    if diagonal:
        (x1, y1), (x2, y2) = place(0, 0), place(1, 1)
        out.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{GREY}" stroke-dasharray="4"/>'
        )
    for i, (name, (xs, ys)) in enumerate(lines.items()):
        colour, dash = (BLUE, ORANGE)[i % 2], ("", ' stroke-dasharray="6 3"')[i // 2 % 2]
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in zip(xs, ys, strict=True))
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        if diagonal:
            out += [
                '<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>'.format(*place(x, y), colour)
                for x, y in zip(xs, ys, strict=True)
            ]
        if len(lines) > 1:
            out.append(
                f'<text x="{right}" y="{top + 14 + 16 * i}" text-anchor="end" '
                f'style="fill:{colour}">{escape(name)}</text>'
            )
    return _svg(bottom + 42, out)


def _svg(height, parts):
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">'
        + "".join(parts)
        + "</svg>"
    )


def _short(name, most=30):
    return name if len(name) <= most else name[: most - 1] + "\u2026"
