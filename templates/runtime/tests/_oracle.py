"""The arithmetic of the property tests: a formula in these names gives what a kernel may give.

    from ._oracle import exact, scalar, sigmoid

    def swish(x, beta):
        x, beta = exact(x), scalar(beta, "f32")
        return x * sigmoid(beta * x)

The result, a `Value`, holds the formula's f64 evaluation and, for each element, the interval of
what a kernel may give whose every step keeps its bound (see `_values.py` and `_functions.py`).
`_check.py` compares a kernel's output with it. Dims are matched by name with `align`; from there
on, PyTorch's broadcasting holds. `abs`, `round`, `min`, `max`, `not`, `and`, `or` are `absolute`,
`round_even`, `minimum`, `maximum`, `logical_not`, `&`, `|`.
"""

from __future__ import annotations

from ._contractions import contract
from ._functions import (
    absolute,
    cast,
    ceil,
    clamp,
    cos,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    normal_cdf,
    round_even,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
)
from ._leaves import align, exact, exact_nibbles, filled, index, length, scalar
from ._places import spread, take
from ._random import rand
from ._reductions import (
    all_over,
    any_over,
    argmax_over,
    argmin_over,
    logsumexp_over,
    max_over,
    mean_over,
    min_over,
    prod_over,
    sum_over,
    var_over,
)
from ._values import Value, converted, equal, logical_not, power

__all__ = [
    "Value",
    "absolute",
    "align",
    "all_over",
    "any_over",
    "argmax_over",
    "argmin_over",
    "cast",
    "ceil",
    "clamp",
    "contract",
    "converted",
    "cos",
    "equal",
    "erf",
    "erfc",
    "exact",
    "exact_nibbles",
    "exp",
    "exp2",
    "expm1",
    "filled",
    "floor",
    "fma",
    "index",
    "isfinite",
    "isinf",
    "isnan",
    "length",
    "log",
    "log1p",
    "log2",
    "logical_not",
    "logsumexp_over",
    "max_over",
    "maximum",
    "mean_over",
    "min_over",
    "minimum",
    "normal_cdf",
    "power",
    "prod_over",
    "rand",
    "round_even",
    "rsqrt",
    "scalar",
    "sigmoid",
    "sign",
    "sin",
    "spread",
    "sqrt",
    "sum_over",
    "take",
    "tanh",
    "trunc",
    "var_over",
    "where",
]
