"""Mutated specs: each is lowered or refused with diagnostics, whatever it says."""

import random
import re
from pathlib import Path

import pytest

from opgen.diagnostics import SpecError
from opgen.ir.lower import lower
from opgen.ir.pretty import format_op
from opgen.source import Source
from opgen.syntax.parse import parse
from tests.lowering import unread

CASES = Path(__file__).parents[1] / "cases" / "lower"
TOKEN = re.compile(r'"""|"[^"\n]*"|\w+|\.\.\.|\.\.|==|!=|<=|>=|<<|>>|\*\*|//|->|\S')
OPERATORS = "+ - * / // % @ ** == < <= > != >= & | ^ << >> and or".split()
TYPES = "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool i4 u4 T U".split()
REDUCTIONS = "sum mean prod min max any all argmax argmin var logsumexp softmax normalize".split()


def kind(token: str) -> str:
    """Tokens of one kind can stand in each other's place."""
    for group in (OPERATORS, TYPES, REDUCTIONS):
        if token in group:
            return group[0]
    if re.fullmatch(r"\d[\w.]*", token):
        return "number"
    return "dim" if re.fullmatch(r"[A-Z]\w?|\.\.\.", token) else "name" if token.isidentifier() else token


def ops() -> list[list[str]]:
    texts = [re.sub("#.*", "", path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*/*.op"))]
    items = [item for text in texts for item in re.split(r"(?=\bop \w+\()", text)]
    return [TOKEN.findall(item) for item in items if item.startswith("op ")]


def mutated(tokens: list[str], chance: random.Random) -> str:
    tokens = list(tokens)
    for _ in range(chance.choice([1, 2, 4, 8])):
        place = chance.randrange(len(tokens))
        tokens[place] = chance.choice([token for token in tokens if kind(token) == kind(tokens[place])])
    return " ".join(tokens)


def outcome(text: str) -> str:
    try:
        file = parse(Source("mutated.op", text))
    except SpecError:
        return "not parsed"
    try:
        lowered = lower(file, read=unread)
    except SpecError as error:
        return "refused" if str(error) else "refused without a word"
    return "lowered" if all(format_op(op) for op in lowered.ops) else "not printed"


@pytest.mark.parametrize("seed", range(3))
def test_no_mutation_breaks_lowering(seed: int) -> None:
    chance = random.Random(seed)
    sources = ops()
    outcomes = [outcome(mutated(chance.choice(sources), chance)) for _ in range(40)]
    assert {"lowered", "refused"} <= set(outcomes) <= {"lowered", "refused", "not parsed"}
