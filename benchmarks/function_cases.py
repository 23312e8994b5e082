"""The device functions to measure, each with its oracle, its arguments and the limit of its error.

The functions of `templates/runtime/_math.py`, and those of
`grammar/prelude.op` as formulas over the functions.
"""

import ast
import functools
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

if not torch.cuda.is_available():  # before anything imports triton
    os.environ.setdefault("TRITON_INTERPRET", "1")

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Oracle = Callable[..., torch.Tensor]
Tensors = tuple[torch.Tensor, ...]


def package(name: str, folder: Path) -> None:
    """Make the Python files of `folder` importable as modules of a package `name`."""
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


package("device_functions", ROOT / "templates" / "runtime")
math = importlib.import_module("device_functions._math")
exact = importlib.import_module("device_functions._math_exact")
eager = importlib.import_module("device_functions._eager")


# --- The prelude as Triton source -----------------------------------------------------------------

PRELUDE_ITEM = re.compile(r"^fn (\w+)\(([^)]*)\) =(.*?)(?=^fn |^\"|\Z)", re.M | re.S)
TRITON_NAMES = {
    "abs": "tl.abs",
    "where": "tl.where",
    "max": "exact.maximum",
    "min": "exact.minimum",
}


class _ToTriton(ast.NodeTransformer):
    """Renames the functions of the spec language and makes `/` a correctly rounded division."""

    def __init__(self, own: set[str]) -> None:
        self.own = own

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name not in self.own:
            name = name.removeprefix("_")  # a built-in that is the prelude's alone
            module = "math" if hasattr(math, name) else "exact"
            node.func = ast.parse(TRITON_NAMES.get(name, f"{module}.{name}"), mode="eval").body
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            function = ast.parse("exact.neg", mode="eval").body
            return ast.Call(func=function, args=[node.operand], keywords=[])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            function = ast.parse("exact.div", mode="eval").body
            return ast.Call(func=function, args=[node.left, node.right], keywords=[])
        return node


def prelude_source(text: str) -> str:
    """The functions of a prelude that name no dims, as a module of `@triton.jit` functions."""
    text = "\n".join(line.split("#")[0] for line in text.splitlines())
    items = [(m[1], m[2], " ".join(m[3].split())) for m in PRELUDE_ITEM.finditer(text)]
    transform = _ToTriton({name for name, _, _ in items})
    lines = [
        "import triton",
        "import triton.language as tl",
        "from device_functions import _math as math",
    ]
    lines += ["from device_functions import _math_exact as exact"]
    for name, parameters, body in items:
        expression = ast.unparse(ast.fix_missing_locations(transform.visit(ast.parse(body, mode="eval"))))
        lines += ["@triton.jit", f"def {name}({parameters}):", f"    return {expression}"]
    return "\n".join(lines) + "\n"


@functools.cache
def prelude() -> ModuleType:
    """`grammar/prelude.op` as a module of Triton functions."""
    folder = Path(tempfile.mkdtemp())
    text = (ROOT / "grammar" / "prelude.op").read_text(encoding="utf-8")
    (folder / "prelude.py").write_text(prelude_source(text), encoding="utf-8")
    package("formulas", folder)
    return importlib.import_module("formulas.prelude")


# --- Arguments ------------------------------------------------------------------------------------

SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"))
# Where results change their form: ends of the range of e^x and 2^x, branch points, ranges of normal
# results.
# fmt: off
POINTS = (
    1.0, -1.0, 0.5, 2.0, 1 / 3, 2 / 3, 4 / 3, 0.34657359, -0.34657359, 1.0397208,
    -1.0397208, 10.0, 20.0, 87.336544, -87.336544, 88.0, -88.0, 88.376262, 88.722839, 89.0,
    -89.0, 89.415985, -103.97208, 126.0, -126.0, 127.0, 128.0, 9.19, 9.38, -9.38,
    12.9, -12.9, 17.3, -17.3, -30.0, -91.8, 3.1415927, 1.5707964,
)
# fmt: on


def finite_bits(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Finite floats, uniform over their bit patterns."""
    integer = torch.int32 if dtype == torch.float32 else torch.int64
    info = torch.iinfo(integer)
    x = torch.randint(info.min, info.max, (count,), dtype=integer, generator=generator).view(dtype)
    return torch.where(x.isfinite(), x, 1.0)


def neighbours(point: float, count: int, dtype: torch.dtype) -> torch.Tensor:
    """`count` consecutive floats around a point that is not zero."""
    integer = torch.int32 if dtype == torch.float32 else torch.int64
    centre = torch.tensor(point, dtype=dtype).view(integer)
    return (centre + torch.arange(-count // 2, count // 2, dtype=integer)).view(dtype)


def unary_arguments(count: int, dtype: torch.dtype) -> Tensors:
    """`count` floats: a quarter over all bit patterns, the rest dense where functions of one
    argument change.
    """
    generator = torch.Generator().manual_seed(1)

    def uniform(n: int, bound: float) -> torch.Tensor:
        return (torch.rand(n, dtype=torch.float64, generator=generator) * 2 - 1) * bound

    q = count // 16
    near = torch.cat([neighbours(p, q // 16, dtype) for p in POINTS])
    magnitude = torch.exp2(uniform(4 * q, 15.0) - 8.0) * uniform(4 * q, 1.0).sign()
    dense = [uniform(3 * q, 110.0), uniform(2 * q, 20.0), uniform(q, 2.0), magnitude]
    x = torch.cat([torch.tensor(SPECIAL, dtype=dtype), near, *(d.to(dtype) for d in dense)])
    return (torch.cat([x, finite_bits(count - x.numel(), dtype, generator)]),)


def unit_arguments(count: int, dtype: torch.dtype) -> Tensors:
    """The unary arguments without their signs, and those above 1 turned round: all are in [0, 1]."""
    x = unary_arguments(count, dtype)[0].abs()
    return (torch.where(x > 1, 1 / x, x),)


def pow_arguments(count: int, dtype: torch.dtype) -> Tensors:
    """Bases and exponents: bit patterns, and exponents that bring a base's power to all of the
    type's range.
    """
    generator = torch.Generator().manual_seed(2)
    q = count // 8
    grid = torch.tensor((*SPECIAL, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e10, -1e10), dtype=dtype)
    base, exponent = (t.reshape(-1) for t in torch.meshgrid(grid, grid, indexing="ij"))
    span = 130.0 if dtype == torch.float32 else 1030.0
    wide = finite_bits(2 * q, dtype, generator).abs()
    near_one = 1.0 + torch.exp2(-24.0 * torch.rand(q, dtype=torch.float64, generator=generator)).to(dtype)
    x = torch.cat([wide, near_one, torch.rand(2 * q, dtype=dtype, generator=generator) * 4])
    log2 = torch.log2(x.double().clamp_min(1e-300))
    reach = (torch.rand(x.numel(), dtype=torch.float64, generator=generator) * 2 - 1) * span
    y = torch.where(log2 == 0.0, 1.0, reach / log2).to(dtype)
    whole = torch.randint(-40, 40, (q,), generator=generator).to(dtype)
    signed = torch.randn(q, dtype=dtype, generator=generator)
    n = count - base.numel() - x.numel() - q
    rest = finite_bits(2 * n, dtype, generator)
    return torch.cat([base, x, signed, rest[:n]]), torch.cat([exponent, y, whole, rest[n:]])


def paired_arguments(count: int, dtype: torch.dtype) -> Tensors:
    """The unary arguments beside positive second arguments around 1."""
    generator = torch.Generator().manual_seed(3)
    second = torch.exp2(torch.rand(count, dtype=torch.float64, generator=generator) * 4 - 2)
    return unary_arguments(count, dtype)[0], second.to(dtype)


# --- Oracles --------------------------------------------------------------------------------------


def _below_zero(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, 0.0, x)


def _log1p_exp(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, 0.0) + torch.log1p(torch.exp(-x.abs()))


def _tanhshrink(x: torch.Tensor) -> torch.Tensor:
    # Taylor below 0.2, where the difference would cancel (DLMF 4.33.3).
    terms = (
        1 / 3,
        -2 / 15,
        17 / 315,
        -62 / 2835,
        1382 / 155925,
        -21844 / 6081075,
        929569 / 638512875,
    )
    series = torch.zeros_like(x)
    for term in reversed(terms):
        series = series * x * x + term
    return torch.where(x.abs() < 0.2, x * x * x * series, x - torch.tanh(x))


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return x * eager.normal_cdf(x)


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    z = 2.0 * 0.7978845608028654 * (x + 0.044715 * x**3)
    return x * torch.sigmoid(z)


@dataclass(frozen=True)
class Case:
    """One function to measure: its oracle in float64, how to draw arguments, and the limit in
    units.
    """

    name: str
    oracle: Oracle
    arguments: Callable[[int, torch.dtype], Tensors] = unary_arguments
    limit: float = 4.0
    source: str = "function"

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The types to measure; the oracle of a formula is no better than its float64 form."""
        return (torch.float32, torch.float64) if self.source == "function" else (torch.float32,)


FUNCTIONS = (
    Case("exp", torch.exp),
    Case("exp2", torch.exp2),
    Case("expm1", torch.expm1),
    Case("log", torch.log),
    Case("log2", torch.log2),
    Case("log1p", torch.log1p),
    Case("sin", torch.sin),
    Case("cos", torch.cos),
    Case("sqrt", torch.sqrt),
    Case("rsqrt", torch.rsqrt),
    Case("tanh", torch.tanh),
    Case("erf", torch.erf),
    Case("erfc", torch.erfc),
    Case("sigmoid", torch.sigmoid),
    Case("normal_cdf", eager.normal_cdf, limit=8.0),
    Case("log1p_unit", torch.log1p, unit_arguments),
    Case("pow", torch.pow, pow_arguments, 16.0),
    Case("div", torch.div, pow_arguments),
)
FORMULAS = (
    Case("tan", torch.tan, limit=16.0),
    Case("sinh", torch.sinh),
    Case("cosh", torch.cosh),
    Case("log10", torch.log10),
    Case("reciprocal", torch.reciprocal),
    Case("relu6", lambda x: torch.where(x < 0, 0.0, x.clamp(max=6))),
    Case("leaky_relu", lambda x, s: torch.where(x > 0, x, s * x), paired_arguments),
    Case("elu", lambda x, a: torch.where(x > 0, x, a * torch.expm1(_below_zero(x))), paired_arguments),
    Case("celu", torch.celu),
    Case("selu", torch.selu),
    Case("silu", lambda x: x * torch.sigmoid(x)),
    Case("swish", lambda x, b: x * torch.sigmoid(b * x), paired_arguments),
    Case("gelu", _gelu),
    Case("gelu_tanh", _gelu_tanh),
    Case("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x)),
    Case("mish", lambda x: x * torch.tanh(_log1p_exp(x))),
    Case("logsigmoid", lambda x: -_log1p_exp(-x)),
    Case("softsign", lambda x: x / (1 + x.abs())),
    Case("softcap", lambda x, c: c * torch.tanh(x / c), paired_arguments),
    Case("hardtanh", lambda x: x.clamp(-1, 1)),
    Case("hardsigmoid", lambda x: (x + 3).clamp(0, 6) / 6),
    Case("hardswish", lambda x: x * (x + 3).clamp(0, 6) / 6),
    Case("tanhshrink", _tanhshrink),
    Case("softplus", _log1p_exp),
)
CASES = (
    *FUNCTIONS,
    *(replace(case, source="formula") for case in FORMULAS),
)


def device_function(case: Case) -> Any:
    """The Triton function that a case measures."""
    if case.source == "function":
        return getattr(math, case.name, None) or getattr(exact, case.name)
    return getattr(prelude(), case.name)
