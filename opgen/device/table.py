"""Tables of words, as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def text_table(columns: Sequence[str], rows: Rows) -> str:
    """Aligned columns: words at the left, numbers at the right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    numeric = [_is_numeric(column) for column in (zip(*rows, strict=True) if rows else [()] * len(columns))]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(placed).rstrip()

    return "\n".join(line(cells) for cells in (columns, *rows))


def markdown_table(columns: Sequence[str], rows: Rows) -> str:
    """The same as a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(cell in ("", "-") or cell.replace(".", "", 1).replace("e-", "", 1).isdigit() for cell in cells)
