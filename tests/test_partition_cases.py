"""How ops are cut into kernels, as text: a case is a file; dropping one into the folder adds a test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opgen.ir.lower import lower
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import Part, Partition
from opgen.ir.pretty import format_graph
from opgen.source import Source
from opgen.syntax.parse import parse

CASES = Path(__file__).parent / "cases" / "partition"

Golden = Callable[[Path, str], None]


def _unread(path: str) -> Source:
    raise AssertionError(f"{path} is not read")


def lines(found: Partition) -> Iterator[str]:
    for one in found.temporaries:
        yield f"temporary {one.name}: {one.element}[{', '.join(map(str, one.dims))}]"
    for part in found.parts:
        kept = ", ".join(map(str, part.kept))
        reduced = f", reducing [{', '.join(map(str, part.reduced))}]" if part.reduced else ""
        yield f"{part.kind} over [{kept}]{reduced}"
        yield from (f"  {line}" for line in format_graph(part.graph).splitlines())


def families_of(part: Part) -> list[str]:
    """The families of the dims that a part runs over; `K * 2` is one of its own."""
    dims = dict.fromkeys((*part.space, *part.reduced))
    return [dim.name if dim.times == 1 else str(dim) for dim in dims]


@pytest.mark.parametrize("path", sorted(CASES.glob("*.op")), ids=lambda path: path.stem)
def test_is_cut(path: Path, golden: Golden) -> None:
    file = parse(Source(path.name, path.read_text(encoding="utf-8")))
    text = []
    for op in lower(file, read=_unread).ops:
        found = partition(op)[0]
        assert all(len(families_of(part)) == len({*families_of(part)}) for part in found.parts)
        text += [f"op {op.name}", *(f"  {line}" for line in lines(found)), ""]
    golden(path.with_suffix(".out"), "\n".join(text))
