"""`Value`: a formula's result in exact arithmetic, and the interval of what a kernel may give.

`value` is the evaluation in f64; `lo` and `hi` enclose every result of a kernel whose steps keep
their bounds:
  * `+ - *`: either neighbour of the exact result, subnormals kept (so a contracted `a * b + c` is
    inside);
  * `/`: 2.5 units in the last place; functions: the bounds in `_functions.py`.
NaN in `lo` and `hi` means that the kernel must give NaN; `nan` is true wherever it may. Zeros of
different signs at the ends mean that the sign is open. A decision (comparison, rounding point, step
function) whose operand lies too near its boundary keeps both outcomes in the interval, and counts
in `slack`.

For `f64` the interval must also cover the f64 evaluation itself, so units in the last place count
twice. The class comes last, because its operators are the functions before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Union

import torch
from torch import Tensor

from . import _float_arithmetic as floats
from . import _integers as integers
from ._intervals import F64, hull

Operand = Union["Value", bool, int, float]

_RANK = ("bool", "i32", "i64", "f32", "f64")


# -- kinds -----------------------------------------------------------------------------------------


def literal_kind(number: bool | int | float) -> str:
    """The compute type of a literal that meets nothing wider."""
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, float):
        return "f32"
    low, high = integers.LIMITS["i32"]
    return "i32" if low <= number <= high else "i64"


def literal(number: bool | int | float, kind: str, device: torch.device | None = None) -> Value:
    """A 0-d value that holds an exact literal, rounded once to the compute type."""
    if kind == "bool":
        tensor = torch.tensor(bool(number), device=device)
    elif kind in integers.WIDTH:
        tensor = torch.tensor(int(number), dtype=torch.int64, device=device)
    else:
        tensor = torch.tensor(float(number), dtype=F64, device=device)
    return certain(tensor.to(torch.float32).to(F64) if kind == "f32" else tensor, kind)


def certain(tensor: Tensor, kind: str) -> Value:
    """A value that the kernel holds exactly; `tensor` is f64, int64 or bool, as `kind` asks."""
    nan = (
        tensor.isnan() if tensor.is_floating_point() else torch.zeros_like(tensor, dtype=torch.bool)
    )
    return Value(tensor, tensor, tensor, kind, nan, torch.zeros_like(tensor, dtype=F64))


def converted(x: Value, kind: str) -> Value:
    """`x` in a compute type at least as wide; an integer becomes the nearest float."""
    if x.kind == kind:
        return x
    if x.is_float:
        return replace(x, kind=kind, product=None)
    dtype = torch.int64 if kind in integers.WIDTH else torch.float32 if kind == "f32" else F64
    value, lo, hi = (
        t.to(dtype).to(torch.int64 if kind in integers.WIDTH else F64)
        for t in (x.value, x.lo, x.hi)
    )
    return Value(value, lo, hi, kind, x.nan, x.slack)


def common(
    operands: Sequence[Operand], at_least: str = "bool", device: torch.device | None = None
) -> list[Value]:
    """The operands in the widest of their compute types and `at_least`.

    A literal takes the type that it meets, and goes to the device of the first `Value`, or to
    `device` where all are literals.
    """
    device = next((x.value.device for x in operands if isinstance(x, Value)), device)
    kinds = [x.kind if isinstance(x, Value) else literal_kind(x) for x in operands]
    kind = max([*kinds, at_least], key=_RANK.index)
    return [
        converted(x, kind) if isinstance(x, Value) else literal(x, kind, device) for x in operands
    ]


# -- results ---------------------------------------------------------------------------------------


def bounded(
    operands: Sequence[Value],
    value: Tensor,
    candidates: Sequence[Tensor],
    nan: Tensor | None = None,
) -> Value:
    """The float result of an operation: the interval is the hull of `candidates`.

    `nan` adds the elements that may be NaN though no candidate is. `value` is kept inside the
    interval: the f64 evaluation knows nothing of an f32 overflow.
    """
    lo, hi = hull(candidates)
    may = torch.stack(torch.broadcast_tensors(*candidates)).isnan().any(0)
    if nan is not None:
        may = may | nan
    for x in operands:
        may = may | x.nan
    value = torch.where(value.isnan(), lo, value)
    value = torch.maximum(lo, torch.minimum(value, hi))
    return Value(value, lo, hi, operands[0].kind, may, joint_slack(operands))


def joint_slack(operands: Sequence[Value]) -> Tensor:
    """The larger slack of the operands, elementwise."""
    slack = operands[0].slack
    for x in operands[1:]:
        slack = torch.maximum(slack, x.slack)
    return slack


def decided(operands: Sequence[Value], value: Tensor, certainly: Tensor, possibly: Tensor) -> Value:
    """The bool result of a decision, with slack where it may go either way."""
    slack = torch.maximum(joint_slack(operands), (possibly & ~certainly).to(F64))
    return Value(value, certainly, possibly, "bool", torch.zeros_like(value), slack)


def with_slack(x: Value, undecided: Tensor) -> Value:
    """`x`, the result of a decision that is open where `undecided`."""
    return replace(x, slack=torch.maximum(x.slack, undecided.to(F64)))


def of_integers(
    function: Callable[[Tensor, Tensor], Tensor],
    x: Value,
    y: Value,
    unspecified: Tensor | None = None,
) -> Value:
    """The wrapped integer result of `function`, on int64 tensors of the operands' kind.

    An operand that is open between two neighbours is tried at both; one that is open any wider, and
    `unspecified` elements, give the whole range of the type.
    """
    value = integers.wrap(function(x.value, y.value), integers.WIDTH[x.kind])
    lo, hi, anything = integers.outcomes(function, x.ends, y.ends, x.kind)
    if unspecified is not None:
        anything = anything | unspecified
    low, high = integers.LIMITS[x.kind]
    lo, hi = torch.where(anything, low, lo), torch.where(anything, high, hi)
    return Value(value, lo, hi, x.kind, torch.zeros_like(anything), joint_slack((x, y)))


# -- arithmetic ------------------------------------------------------------------------------------


def add(x: Operand, y: Operand) -> Value:
    """`x + y`; a product among the operands may have been left unrounded (contraction)."""
    x, y = common((x, y), "i32")
    if not x.is_float:
        return of_integers(torch.add, x, y)
    candidates: list[Tensor] = []
    nan = torch.zeros_like(x.nan)
    for x_ends in x.roundings:
        for y_ends in y.roundings:
            ends, opposite = floats.sums(x_ends, y_ends, x.kind)
            candidates += ends
            nan = nan | opposite
    return bounded((x, y), x.value + y.value, candidates, nan)


def subtract(x: Operand, y: Operand) -> Value:
    """`x - y`."""
    x, y = common((x, y), "i32")
    return add(x, negative(y)) if x.is_float else of_integers(torch.sub, x, y)


def negative(x: Operand) -> Value:
    """`-x`, exact."""
    (x,) = common((x,), "i32")
    if not x.is_float:
        return of_integers(lambda s, _: -s, x, x)
    product = None if x.product is None else (-x.product[1], -x.product[0])
    return replace(x, value=-x.value, lo=-x.hi, hi=-x.lo, product=product)


def multiply(x: Operand, y: Operand) -> Value:
    """`x * y`; a square where both are the same object."""
    square = x is y
    x, y = common((x, y), "i32")
    if not x.is_float:
        return of_integers(torch.mul, x, y)
    found = floats.squares(x.ends, x.kind) if square else floats.products(x.ends, y.ends, x.kind)
    unrounded = floats.unrounded_products(x.ends, y.ends)
    if square:
        unrounded = [end.clamp(min=0.0) for end in unrounded]
    return replace(bounded((x, y), x.value * y.value, *found), product=hull(unrounded))


def divide(x: Operand, y: Operand) -> Value:
    """`x / y`, always a float."""
    x, y = common((x, y), "f32")
    return bounded((x, y), x.value / y.value, *floats.quotients(x.ends, y.ends, x.kind))


def floor_divide(x: Operand, y: Operand) -> Value:
    """`x // y`: the floor of the exact quotient; unspecified for integers and a zero divisor."""
    x, y = common((x, y), "i32")
    if not x.is_float:
        return of_integers(integers.floor_quotient, x, y, unspecified=(y.lo <= 0) & (y.hi >= 0))
    candidates, nan, undecided = floats.floors_of_quotients(x.ends, y.ends, x.kind)
    return with_slack(
        bounded((x, y), torch.floor_divide(x.value, y.value), candidates, nan), undecided
    )


def remainder(x: Operand, y: Operand) -> Value:
    """`x % y`, of the sign of `y`; unspecified for integers and a zero divisor."""
    x, y = common((x, y), "i32")
    if not x.is_float:
        return of_integers(integers.floor_remainder, x, y, unspecified=(y.lo <= 0) & (y.hi >= 0))
    candidates, nan, undecided = floats.remainders(x.ends, y.ends, x.kind)
    return with_slack(
        bounded((x, y), torch.remainder(x.value, y.value), candidates, nan), undecided
    )


def power(x: Operand, y: Operand) -> Value:
    """`x ** y`, always a float."""
    x, y = common((x, y), "f32")
    return bounded((x, y), torch.pow(x.value, y.value), *floats.powers(x.ends, y.ends, x.kind))


# -- comparisons and bits --------------------------------------------------------------------------


def less(x: Operand, y: Operand) -> Value:
    """`x < y`."""
    x, y = common((x, y), "i32")
    return decided((x, y), x.value < y.value, (x.hi < y.lo) & ~(x.nan | y.nan), x.lo < y.hi)


def less_equal(x: Operand, y: Operand) -> Value:
    """`x <= y`."""
    x, y = common((x, y), "i32")
    return decided((x, y), x.value <= y.value, (x.hi <= y.lo) & ~(x.nan | y.nan), x.lo <= y.hi)


def equal(x: Operand, y: Operand) -> Value:
    """`x == y`."""
    x, y = common((x, y), "i32")
    certainly = (x.hi <= y.lo) & (y.hi <= x.lo) & ~(x.nan | y.nan)
    return decided((x, y), x.value == y.value, certainly, (x.lo <= y.hi) & (y.lo <= x.hi))


def logical_not(x: Value) -> Value:
    """`not x` of a bool."""
    return replace(x, value=~x.value, lo=~x.hi, hi=~x.lo)


def _bitwise(name: str) -> Callable[[Operand, Operand], Value]:
    function: Callable[[Tensor, Tensor], Tensor] = getattr(torch, f"bitwise_{name}")

    def operator(x: Operand, y: Operand) -> Value:
        x, y = common((x, y))
        if x.kind in integers.WIDTH:
            return of_integers(function, x, y)
        if x.is_float:
            raise TypeError(f"bitwise {name} of a float")
        outcomes = torch.stack([function(s, t) for s in x.ends for t in y.ends])
        return decided((x, y), function(x.value, y.value), outcomes.all(0), outcomes.any(0))

    operator.__doc__ = f"Bitwise {name} of integers; of bools it gives a bool."
    return operator


def inverted(x: Value) -> Value:
    """`~x` of an integer; of a bool it is `not x`."""
    return logical_not(x) if x.kind == "bool" else of_integers(lambda s, _: ~s, x, x)


def _shift(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Operand, Operand], Value]:
    def operator(x: Operand, y: Operand) -> Value:
        x, y = common((x, y), "i32")
        return of_integers(
            function, x, y, unspecified=(y.lo < 0) | (y.hi >= integers.WIDTH[x.kind])
        )

    operator.__doc__ = "A shift of integers; unspecified for counts below 0 or not below the width."
    return operator


bitwise_and, bitwise_or, bitwise_xor = _bitwise("and"), _bitwise("or"), _bitwise("xor")
shift_left, shift_right = _shift(integers.shifted_left), _shift(integers.shifted_right)


def _swapped(operator: Callable[[Operand, Operand], Value]) -> Callable[[Value, Operand], Value]:
    return lambda x, y: operator(y, x)


@dataclass(frozen=True, eq=False)
class Value:
    """One value of a formula, elementwise; all tensors have one shape.

    `kind` is the compute type: `f32`, `f64` (tensors in f64), `i32`, `i64` (in int64), or `bool`.
    `slack` is the share of undecided decisions among those that an element rests on (0 or 1 without
    reductions). `product` holds the ends of a product before rounding, for the sum that may be
    contracted with it.
    """

    value: Tensor
    lo: Tensor
    hi: Tensor
    kind: str
    nan: Tensor
    slack: Tensor
    product: tuple[Tensor, Tensor] | None = None

    @property
    def is_float(self) -> bool:
        return self.kind in ("f32", "f64")

    @property
    def shape(self) -> torch.Size:
        return self.value.shape

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        return self.lo, self.hi

    @property
    def roundings(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """The ends as the kernel rounds them, and those of an unrounded product."""
        return (self.ends,) if self.product is None else (self.ends, self.product)

    @property
    def radius(self) -> Tensor:
        """How far the kernel may be from `value`: f64, infinite where an end is."""
        return torch.maximum(self.hi - self.value, self.value - self.lo)

    def map(self, layout: Callable[[Tensor], Tensor]) -> Value:
        """The same value after `layout`: a view, a transposition, an expansion, an index."""
        value, lo, hi, nan, slack = map(
            layout, (self.value, self.lo, self.hi, self.nan, self.slack)
        )
        return Value(value, lo, hi, self.kind, nan, slack)

    __add__ = __radd__ = add
    __mul__ = __rmul__ = multiply
    __sub__, __rsub__ = subtract, _swapped(subtract)
    __truediv__, __rtruediv__ = divide, _swapped(divide)
    __floordiv__, __rfloordiv__ = floor_divide, _swapped(floor_divide)
    __mod__, __rmod__ = remainder, _swapped(remainder)
    __pow__, __rpow__ = power, _swapped(power)
    __neg__, __invert__ = negative, inverted
    __and__ = __rand__ = bitwise_and
    __or__ = __ror__ = bitwise_or
    __xor__ = __rxor__ = bitwise_xor
    __lshift__, __rlshift__ = shift_left, _swapped(shift_left)
    __rshift__, __rrshift__ = shift_right, _swapped(shift_right)
    __lt__, __gt__ = less, _swapped(less)
    __le__, __ge__ = less_equal, _swapped(less_equal)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return equal(self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return logical_not(equal(self, other))

    def __bool__(self) -> bool:
        raise TypeError("a Value has no single truth value: use &, |, logical_not and where")
