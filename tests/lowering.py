"""Specs that use no other file, lowered from their text."""

from opgen.ir.lower import Lowered, lower
from opgen.source import Source
from opgen.syntax.parse import parse


def unread(path: str) -> Source:
    """Reads no file: there is none beside the spec."""
    raise FileNotFoundError(path)


def lowered(text: str) -> Lowered:
    """What a spec is lowered to. Raises `SpecError` with its mistakes."""
    return lower(parse(Source("spec.op", text)), read=unread)
