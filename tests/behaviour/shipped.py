"""A table of the shipped ops: their inputs, and what they compute, in plain PyTorch on f64 values."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

HALVES_AND_SINGLE = (torch.float16, torch.bfloat16, torch.float32)

#: Both zeros, where the branches and tails of the activations lie, and the ends of the number line. None is
#: where an intermediate is a subnormal f32, which functions may read as zero, and the result is not.
MODERATE = tuple(
    sign * x for x in (0.0, 6e-8, 1e-4, 0.5, 1.0, 2.703125, 3.0, 6.0, 9.0, 12.0) for sign in (1.0, -1.0)
)
ENDS = (math.inf, -math.inf, math.nan, 1e4, -1e4)
FAR = (20.0, -20.0, 86.0, -86.0, 104.0, -104.0, 65504.0, -65504.0)


def public(name: str) -> Callable[..., Any]:
    """The public function of the checked-in package."""
    function: Callable[..., Any] = getattr(importlib.import_module("generated"), name)
    return function


def draw(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, width: float = 3.0
) -> Tensor:
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * width).to(dtype)


@dataclass(frozen=True)
class Pointwise:
    """An op over tensors of one (broadcast) shape and one element type, then scalars.

    `expected` gives the result from the f64 values of the tensors and the scalars. `condition` gives the sum
    of the absolute values that rounding errors are relative to, from the same arguments and the result.
    """

    name: str
    expected: Callable[..., Tensor]
    tensors: int = 1
    scalars: dict[str, float] = field(default_factory=dict)
    condition: Callable[..., Tensor] = lambda *values: values[-1].abs()
    result: torch.dtype | None = None  # None: the type of the tensors
    ulps: float = 8.0


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def softplus(x: Tensor) -> Tensor:
    return x.clip(min=0) + torch.log1p(torch.exp(-x.abs()))


def normal_cdf(x: Tensor) -> Tensor:
    """The standard normal distribution function, with relative accuracy in the lower tail."""
    return 0.5 * torch.erfc(-x / math.sqrt(2))


def tanh_cdf(x: Tensor) -> Tensor:
    """The tanh approximation of `normal_cdf` (Hendrycks and Gimpel, 2016), as the sigmoid that it equals."""
    return sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def squared_tail(x: Tensor, y: Tensor) -> Tensor:
    """Errors of an argument that is squared, then exponentiated."""
    return y.abs() * (1 + x * x)


def cubed_tail(x: Tensor, y: Tensor) -> Tensor:
    return y.abs() * (1 + 2 * (x + 0.044715 * x**3).abs())


POINTWISE = (
    Pointwise(
        "swish",
        lambda x, beta: x * sigmoid(beta * x),
        scalars={"beta": 1.0},
        condition=lambda x, beta, y: y.abs() * (1 + (beta * x).abs()),
    ),
    Pointwise("gelu", lambda x: x * normal_cdf(x), condition=squared_tail),
    Pointwise("gelu_tanh", lambda x: x * tanh_cdf(x), condition=cubed_tail),
    Pointwise(
        "mish",
        lambda x: x * torch.tanh(softplus(x)),
        condition=lambda x, y: y.abs() * (1 + x.abs()),
    ),
    Pointwise(
        "softplus",
        lambda x, beta: softplus(beta * x) / beta,
        scalars={"beta": 0.75},
        condition=lambda x, beta, y: y.abs() * (1 + (beta * x).abs()),
    ),
    Pointwise("softcap", lambda x, cap: cap * torch.tanh(x / cap), scalars={"cap": 30.0}),
    Pointwise(
        "silu_mul",
        lambda a, b: a * sigmoid(a) * b,
        tensors=2,
        condition=lambda a, b, y: y.abs() * (1 + a.abs()),
    ),
    Pointwise(
        "geglu",
        lambda a, b: a * normal_cdf(a) * b,
        tensors=2,
        condition=lambda a, b, y: squared_tail(a, y),
    ),
    Pointwise("relu_squared", lambda x: x.clip(min=0) ** 2),
    Pointwise("hardswish", lambda x: x * (x + 3).clip(0, 6) / 6, condition=lambda x, y: y.abs() + x.abs()),
    Pointwise(
        "lerp",
        lambda a, b, weight: a + weight * (b - a),
        tensors=2,
        scalars={"weight": 0.3},
        condition=lambda a, b, weight, y: a.abs() + b.abs(),
    ),
    Pointwise(
        "quantise_fp8",
        lambda x, scale: (x / scale).clip(-448.0, 448.0),
        scalars={"scale": 0.0625},
        result=torch.float8_e4m3fn,
    ),
)

BY_NAME = {op.name: op for op in POINTWISE}


def as_f32(value: float) -> float:
    """The number that an f32 scalar parameter holds."""
    return float(torch.tensor(value, dtype=torch.float32).item())


def oracle(op: Pointwise, tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The f64 result and the magnitude that its rounding errors are relative to."""
    wide = [tensor.cpu().to(torch.float64) for tensor in tensors]
    scalars = [as_f32(value) for value in op.scalars.values()]
    result = op.expected(*wide, *scalars)
    return result, op.condition(*wide, *scalars, result)


# The ops with named dims, or with more than one element type.


def bias_gelu_residual(x: Tensor, bias: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """The f64 result and its magnitude."""
    z = x + bias
    gelu = z * tanh_cdf(z)
    return (
        gelu + residual,
        cubed_tail(x.abs() + bias.abs(), gelu) + x.abs() + bias.abs() + residual.abs(),
    )


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """x [..., S, H, D], tables [..., S, D]: pairs (i, i + D / 2) are rotated."""
    half = x.shape[-1] // 2
    c, s = cos[..., :, None, :], sin[..., :, None, :]
    low, high = x[..., :half], x[..., half:]
    first = low * c[..., :half], high * s[..., :half]
    second = high * c[..., half:], low * s[..., half:]
    result = torch.cat((first[0] - first[1], second[0] + second[1]), -1)
    return result, torch.cat((first[0].abs() + first[1].abs(), second[0].abs() + second[1].abs()), -1)


def rope_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """x [..., S, H, D], tables [..., S, D / 2]: pairs (2 i, 2 i + 1) are rotated, as complex numbers."""
    pairs = x.unflatten(-1, (-1, 2))
    c, s = cos[..., :, None, :], sin[..., :, None, :]
    real = pairs[..., 0] * c, pairs[..., 1] * s
    imaginary = pairs[..., 1] * c, pairs[..., 0] * s
    result = torch.stack((real[0] - real[1], imaginary[0] + imaginary[1]), -1).flatten(-2)
    terms = real[0].abs() + real[1].abs(), imaginary[0].abs() + imaginary[1].abs()
    return result, torch.stack(terms, -1).flatten(-2)


def embedding_add(ids: Tensor, positions: Tensor, tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Row by row; a row outside its table is zero."""

    def rows(table: Tensor, at: Tensor) -> Tensor:
        zero = torch.zeros(table.shape[1:], dtype=table.dtype)
        picked = [table[i] if 0 <= i < len(table) else zero for i in at.flatten().tolist()]
        return torch.stack(picked or [zero])[: len(picked)].reshape(*at.shape, *zero.shape)

    first, second = rows(tokens, ids), rows(places, positions)
    return first + second, first.abs() + second.abs()


def philox_uniform(seed: int, count: int) -> list[float]:
    """`count` numbers in [0, 1): Philox-4x32-10 (Salmon et al., 2011), first word, counter (p, 0, 0, 0)."""
    key = seed % 2**32, seed % 2**64 >> 32
    return [_uniform(_philox((p, 0, 0, 0), key)) for p in range(count)]


def _philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> int:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b % 2**32, (a >> 32) ^ c3 ^ k1, a % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0


def _uniform(word: int) -> float:
    """Triton's map of a word to [0, 1): its magnitude as a signed number, times just under 2^-31, in f32."""
    signed = word - 2**32 if word >= 2**31 else word
    magnitude = torch.tensor(-signed - 1 if signed < 0 else signed, dtype=torch.int32).to(torch.float32)
    return float((magnitude * 4.6566127342e-10).item())
