"""The oracle on random formulas: right kernels never fail, faulty ones nearly always do."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.behaviour.oracle_package import load
from tests.behaviour.test_oracle import draw, rounded

o = load("_oracle")
checking = load("_check")

Formula = str | tuple[Any, ...]  # an input, or a name of the tables below and its operands


def to_integer(x: Tensor, low: int, high: int) -> Tensor:
    return torch.where(x.isnan(), 0.0, x).clamp(low, high).to(torch.int64)


ONE: dict[str, tuple[Callable[..., Any], Callable[..., Tensor]]] = {
    "negative": (lambda a: -a, lambda a: -a),
    "constant": (lambda a: 3.0 - a * 1.7, lambda a: 3 - a * 1.7),
    "square": (lambda a: a * a, lambda a: a * a),
    "cube": (lambda a: a**3, lambda a: a**3),
    "absolute": (o.absolute, torch.abs),
    "round": (o.round_even, torch.round),
    "integer": (
        lambda a: o.cast(a, torch.int8) % 7 * 0.5,
        lambda a: to_integer(a, -128, 127) % 7 * 0.5,
    ),
    **{
        str(dtype): (
            lambda a, dtype=dtype: o.cast(a, dtype),
            lambda a, dtype=dtype: rounded(a, dtype),
        )
        for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn)
    },
    **{
        name: (getattr(o, name), getattr(torch, name))
        for name in "exp log tanh sigmoid sqrt rsqrt floor erf sin cos log1p expm1 sign".split()
    },
}
TWO: dict[str, tuple[Callable[..., Any], Callable[..., Tensor]]] = {
    "add": (lambda a, b: a + b, torch.add),
    "subtract": (lambda a, b: a - b, torch.sub),
    "multiply": (lambda a, b: a * b, torch.mul),
    "divide": (lambda a, b: a / b, torch.div),
    "floor_divide": (lambda a, b: a // b, torch.floor_divide),
    "remainder": (lambda a, b: a % b, torch.remainder),
    "power": (lambda a, b: a**b, torch.pow),
    "minimum": (o.minimum, torch.minimum),
    "maximum": (o.maximum, torch.maximum),
    "less": (lambda a, b: o.where(a < b, a, b * 2.0), lambda a, b: torch.where(a < b, a, b * 2)),
    "unless_nan": (
        lambda a, b: o.where(o.isnan(a), b, a),
        lambda a, b: torch.where(a.isnan(), b, a),
    ),
}
FAULTS = {
    "add": "subtract",
    "subtract": "add",
    "multiply": "add",
    "divide": "multiply",
    "minimum": "maximum",
    "maximum": "minimum",
    "exp": "expm1",
    "log": "log1p",
    "tanh": "erf",
    "sigmoid": "tanh",
    "floor": "round",
    "square": "cube",
}


def random_formula(choose: random.Random, depth: int) -> Formula:
    if depth == 0 or choose.random() < 0.1:
        return choose.choice("abc")
    if choose.random() < 0.45:
        return choose.choice(list(ONE)), random_formula(choose, depth - 1)
    return (
        choose.choice(list(TWO)),
        random_formula(choose, depth - 1),
        random_formula(choose, depth - 1),
    )


def evaluate(formula: Formula, inputs: dict[str, Any], column: int) -> Any:
    """The oracle's value (column 0) or a simulated kernel's result (column 1)."""
    if isinstance(formula, str):
        return inputs[formula]
    name, *operands = formula
    function = (ONE if len(operands) == 1 else TWO)[name][column]
    return function(*(evaluate(operand, inputs, column) for operand in operands))


def with_fault(formula: Formula, choose: random.Random) -> Formula:
    """The formula with one node changed."""
    if isinstance(formula, str):
        return formula
    name, *operands = formula
    if name in FAULTS and choose.random() < 0.7:
        return FAULTS[name], *operands
    at = choose.randrange(len(operands))
    return name, *(with_fault(x, choose) if i == at else x for i, x in enumerate(operands))


def run(seed: int, planted: bool) -> tuple[Tensor, Tensor, Any]:
    """A right kernel's result, a faulty one's (if one is planted), and the oracle's value."""
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    formula = random_formula(choose, choose.choice((2, 3, 4)))
    inputs = {name: draw(1000, generator, choose.choice((torch.float32, torch.bfloat16))) for name in "abc"}
    wide = {name: x.float() for name, x in inputs.items()}
    expected = evaluate(formula, {name: o.exact(x) for name, x in inputs.items()}, 0)
    right = evaluate(formula, wide, 1).float()
    faulty = evaluate(with_fault(formula, choose), wide, 1).float() if planted else right
    return right, faulty, expected


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_formulas_never_fail(first: int) -> None:
    for seed in range(first, first + 20):
        right, _, expected = run(seed, planted=False)
        checking.check(right, expected, torch.float32, name=f"formula {seed}")


def test_nearly_every_fault_in_a_random_formula_is_caught() -> None:
    missed = planted = 0
    for seed in range(200):
        right, faulty, expected = run(seed, planted=True)
        if torch.equal(right.nan_to_num(math.pi), faulty.nan_to_num(math.pi)):
            continue  # nothing to see in these inputs
        planted += 1
        try:
            checking.check(faulty, expected, torch.float32, name=f"formula {seed}")
            missed += 1
        except AssertionError:
            pass
    assert planted > 50
    assert missed <= planted * 0.03
