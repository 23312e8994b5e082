"""The largest error of each device function, in units in the last place, against a float64 oracle.

Measures the functions of `templates/runtime/_math.py`, the activations of `_activations.py`, and those of
`grammar/prelude.op` as formulas over the functions; on a GPU where there is one, else under Triton's
interpreter:

    python benchmarks/function_accuracy.py --json accuracy.json
    python benchmarks/function_accuracy.py --exhaustive exp tanh      # all 2^32 floats: on a GPU

A row gives the largest error where the result is normal, its limit, and the argument it was seen at; the
largest error where the result is subnormal, in units of the smallest normal float; and how often a special
argument (0, 1, infinite, NaN) gives a NaN, an infinity or a sign of zero that the oracle has not, or any
other argument a NaN.
"""

import argparse
import ast
import functools
import importlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = 1024 if DEVICE == "cuda" else 1 << 17
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
activations = importlib.import_module("device_functions._activations")


@triton.jit
def unary_kernel(x, y, n, function: tl.constexpr, block: tl.constexpr):
    """y = function(x), elementwise over n elements."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n)), i < n)


@triton.jit
def binary_kernel(x, z, y, n, function: tl.constexpr, block: tl.constexpr):
    """y = function(x, z), elementwise over n elements."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n), tl.load(z + i, i < n)), i < n)


def evaluate(function: Any, inputs: Tensors) -> torch.Tensor:
    """`function` of one or two tensors of one length, computed by a kernel."""
    n = inputs[0].numel()
    y = torch.empty_like(inputs[0])
    kernel = unary_kernel if len(inputs) == 1 else binary_kernel
    kernel[(triton.cdiv(n, BLOCK),)](*inputs, y, n, function, BLOCK)
    return y


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
    lines = ["import triton", "import triton.language as tl", "from device_functions import _math as math"]
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
# Where results change their form: ends of the range of e^x and 2^x, branch points, ranges of normal results.
# fmt: off
POINTS = (
    1.0, -1.0, 0.5, 2.0, 1 / 3, 2 / 3, 4 / 3, 0.34657359, -0.34657359, 1.0397208, -1.0397208, 10.0, 20.0,
    87.336544, -87.336544, 88.0, -88.0, 88.376262, 88.722839, 89.0, -89.0, 89.415985, -103.97208, 126.0, -126.0,
    127.0, 128.0, 9.19, 9.38, -9.38, 12.9, -12.9, 17.3, -17.3, -30.0, -91.8, 3.1415927, 1.5707964,
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
    """`count` floats: a quarter over all bit patterns, the rest dense where functions of one argument change."""
    generator = torch.Generator().manual_seed(1)

    def uniform(n: int, bound: float) -> torch.Tensor:
        return (torch.rand(n, dtype=torch.float64, generator=generator) * 2 - 1) * bound

    q = count // 16
    near = torch.cat([neighbours(p, q // 16, dtype) for p in POINTS])
    magnitude = torch.exp2(uniform(4 * q, 15.0) - 8.0) * uniform(4 * q, 1.0).sign()
    dense = [uniform(3 * q, 110.0), uniform(2 * q, 20.0), uniform(q, 2.0), magnitude]
    x = torch.cat([torch.tensor(SPECIAL, dtype=dtype), near, *(d.to(dtype) for d in dense)])
    return (torch.cat([x, finite_bits(count - x.numel(), dtype, generator)]),)


def pow_arguments(count: int, dtype: torch.dtype) -> Tensors:
    """Bases and exponents: bit patterns, and exponents that bring a base's power to all of the type's range."""
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
    return x * (0.5 * torch.erfc(x * -(0.5**0.5)))


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    z = 2.0 * 0.7978845608028654 * (x + 0.044715 * x**3)
    return x * torch.sigmoid(z)


@dataclass(frozen=True)
class Case:
    """One function to measure: its oracle in float64, how to draw arguments, and the limit in units."""

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
    Case("pow", torch.pow, pow_arguments, 16.0),
    Case("div", torch.div, pow_arguments, 0.5),
)
FORMULAS = (
    Case("tan", torch.tan, limit=16.0),
    Case("sinh", torch.sinh),
    Case("cosh", torch.cosh),
    Case("log10", torch.log10),
    Case("reciprocal", torch.reciprocal),
    Case("relu6", lambda x: x.clamp(0, 6)),
    Case("leaky_relu", lambda x, s: torch.where(x > 0, x, s * x), paired_arguments),
    Case("elu", lambda x, a: torch.where(x > 0, x, a * torch.expm1(_below_zero(x))), paired_arguments),
    Case(
        "celu",
        lambda x, a: torch.where(x > 0, x, a * torch.expm1(_below_zero(x) / a)),
        paired_arguments,
    ),
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
#: Activations that have a device function of their own.
FUSED = ("softplus", "silu", "swish", "mish", "gelu")
CASES = (
    *FUNCTIONS,
    *(replace(case, source="activation") for case in FORMULAS if case.name in FUSED),
    *(replace(case, source="formula") for case in FORMULAS),
)


def device_function(case: Case) -> Any:
    """The Triton function that a case measures."""
    if case.source == "function":
        return getattr(math, case.name, None) or getattr(exact, case.name)
    return getattr(activations if case.source == "activation" else prelude(), case.name)


# --- Measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What was seen of one function in one type, over `count` arguments."""

    name: str
    source: str
    dtype: str
    count: int
    ulp: float
    limit: float
    at: tuple[float, ...]
    subnormal: float
    edges_wrong: int
    edge: tuple[float, ...]

    @property
    def good(self) -> bool:
        """Whether the errors keep to their limits and no special value is wrong."""
        return self.ulp <= self.limit and self.subnormal <= 1.0 and self.edges_wrong == 0


def error_in_ulp(
    y: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """|y - wanted| in units in the last place of `wanted` in `dtype`, and whether `wanted` is subnormal there.

    The unit of a subnormal is the smallest normal float. In float32 an infinity counts as 2^128.
    """
    info = torch.finfo(dtype)
    top = info.max if dtype == torch.float64 else 2.0**128
    y, wanted = y.double().clamp(-top, top), wanted.clamp(-top, top)
    exponent = torch.frexp(wanted).exponent.clamp(max=128 if dtype == torch.float32 else 1024)
    small = wanted.abs() < info.tiny
    scale = torch.where(small, info.tiny, torch.exp2(exponent.double() - 1) * info.eps)
    return ((y - wanted).abs() / scale).nan_to_num(0.0), small


def same_edge(y: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Whether both are NaN, or agree on being infinite and, where the wanted value is a zero, on its sign."""
    infinite = y.isinf() == wanted.isinf()
    zero = (wanted != 0) | (y.signbit() == wanted.signbit())
    return torch.where(wanted.isnan() | y.isnan(), wanted.isnan() & y.isnan(), infinite & zero)


def measure_batch(case: Case, function: Any, dtype: torch.dtype, inputs: Tensors) -> Row:
    """Compare `function` with the oracle of `case` on one batch of arguments.

    Subnormal arguments, which a function may read as zero, count for special values alone.
    """
    y, wanted = evaluate(function, inputs), case.oracle(*(x.double() for x in inputs))
    special = torch.ones_like(y, dtype=torch.bool)
    subnormal = torch.zeros_like(special)
    for x in inputs:
        special &= (x == 0) | (x.abs() == 1) | ~x.isfinite()
        subnormal |= (x != 0) & (x.abs() < torch.finfo(dtype).tiny)
    wrong = torch.where(special, ~same_edge(y, wanted.to(dtype)), y.isnan() != wanted.isnan()) & ~subnormal
    error, small = error_in_ulp(y, wanted, dtype)
    normal = torch.where(small | subnormal, 0.0, error)
    worst, first = int(normal.argmax()), int(wrong.int().argmax())
    return Row(
        name=case.name,
        source=case.source,
        dtype=str(dtype).removeprefix("torch."),
        count=y.numel(),
        ulp=float(normal[worst]),
        limit=case.limit,
        at=tuple(float(x[worst]) for x in inputs),
        subnormal=float(torch.where(small & ~subnormal, error, 0.0).max()),
        edges_wrong=int(wrong.sum()),
        edge=tuple(float(x[first]) for x in inputs) if bool(wrong.any()) else (),
    )


def merged(a: Row, b: Row) -> Row:
    """One row for the arguments of two."""
    worse = a if a.ulp >= b.ulp else b
    return replace(
        worse,
        count=a.count + b.count,
        subnormal=max(a.subnormal, b.subnormal),
        edges_wrong=a.edges_wrong + b.edges_wrong,
        edge=a.edge or b.edge,
    )


def every_float32(batch: int) -> Iterator[Tensors]:
    """All 2^32 floats."""
    for start in range(-(1 << 31), 1 << 31, batch):
        bits = torch.arange(start, start + batch, dtype=torch.int64, device=DEVICE)
        yield (bits.to(torch.int32).view(torch.float32),)


def measure(case: Case, dtype: torch.dtype, count: int, exhaustive: bool) -> Row:
    """Measure one function on `count` drawn arguments, or on all floats if it is a unary one of float32."""
    if exhaustive and dtype == torch.float32 and case.arguments is unary_arguments:
        batches = every_float32(min(1 << 26, 16 * count))
    else:
        batches = iter([tuple(x.to(DEVICE) for x in case.arguments(count, dtype))])
    function = device_function(case)
    return functools.reduce(merged, (measure_batch(case, function, dtype, inputs) for inputs in batches))


def report(row: Row) -> str:
    """A line of the table."""
    at = ", ".join(f"{a:.9g}" for a in row.at) + (f"; edge {row.edge}" if row.edge else "")
    return (
        f"{row.name:12s} {row.source:11s} {row.dtype:8s} {row.count:10d} {row.ulp:10.3f} {row.limit:6.1f}"
        f" {row.subnormal:9.2g} {row.edges_wrong:6d}  {at}{'' if row.good else '  <--'}"
    )


def main() -> None:
    """Print the table and write it as JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="the functions to measure (all)")
    parser.add_argument("--count", type=int, default=1 << 20, help="arguments for each function")
    parser.add_argument("--exhaustive", action="store_true", help="unary float32 functions on all floats")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args()
    started = time.perf_counter()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "interpreter"
    print(
        f"{device}, triton {triton.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    print("function     source      type          count        ulp  limit subnormal  edges  at")
    rows = []
    for case in CASES:
        if options.names and case.name not in options.names:
            continue
        for dtype in case.dtypes:
            count = options.count if dtype == torch.float32 else options.count // 8
            rows.append(measure(case, dtype, count, options.exhaustive))
            print(report(rows[-1]), flush=True)
    print(f"{time.perf_counter() - started:.1f} s")
    if options.json:
        record = {"device": device, "triton": triton.__version__, "torch": torch.__version__}
        options.json.write_text(
            json.dumps({**record, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
