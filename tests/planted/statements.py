"""Statements of one number that give the same with a fault and without it, whatever the number."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

import torch
from torch import Tensor

from tests.planted.operators import Site

_OPERATORS = ("comparison changed", "constant changed", "factor dropped", "sign or negation dropped")
_WIDE = 2**20
"""Random bit patterns of f32."""


def is_same(site: Site) -> bool:
    """Whether a choice between values of one number is the same for all, in a formula or a reference of products."""
    is_formula = site.function.endswith("_formula") or site.function == "reference"
    if site.operator not in _OPERATORS or not is_formula or "rt.ProductWalk(" not in site.module:
        return False
    pair = _differing(site.owner, site.function_text)
    if pair is None:
        return False
    before, after = pair
    names = _numbers(before) | _numbers(after)
    if len(names) != 1 or not {_name(one) for one in (*_calls(before), *_calls(after))} <= _FUNCTIONS.keys():
        return False
    (name,) = names
    one, other = (_value(value, name) for value in (before, after))
    return bool(torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num()))


def _differing(sound: str, faulty: str) -> tuple[ast.expr, ast.expr] | None:
    """What the one assignment that is not the same in two texts of a function assigns in each."""
    found = [
        [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign)]
        for text in (sound, faulty)
    ]
    pairs = [(one, other) for one, other in zip(*found, strict=True) if ast.dump(one) != ast.dump(other)]
    return pairs[0] if len(pairs) == 1 else None


def _calls(value: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(value) if isinstance(node, ast.Call)]


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _numbers(value: ast.expr) -> set[str]:
    """The names in an expression beside those of modules and of devices."""
    found = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return found - {"tl", "torch", "rt", "device"}


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "tl.where": torch.where,
    "torch.where": torch.where,
    "rt.eager.scalar": lambda number, *_: torch.tensor(number, dtype=torch.float32),
}


def _value(value: ast.expr, name: str) -> Tensor:
    """An expression for every number of the sweep; it calls functions of `_FUNCTIONS` alone."""
    tree = ast.Expression(ast.parse(ast.unparse(value), mode="eval").body)
    for call in _calls(tree.body):
        if _name(call) == "rt.eager.scalar":
            call.args = call.args[:1]
        call.func = ast.Name(_name(call).replace(".", "_"), ast.Load())
    known = {function.replace(".", "_"): run for function, run in _FUNCTIONS.items()}
    found = eval(compile(ast.fix_missing_locations(tree), "<statement>", "eval"), {**known, name: _sweep()})
    return torch.as_tensor(found, dtype=torch.float32)


@functools.cache
def _sweep() -> Tensor:
    patterns = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    narrow = [patterns.view(dtype).to(torch.float32) for dtype in (torch.float16, torch.bfloat16)]
    words = torch.randint(-(2**31), 2**31, (_WIDE,), generator=torch.Generator().manual_seed(0))
    return torch.cat([*narrow, words.to(torch.int32).view(torch.float32)])
