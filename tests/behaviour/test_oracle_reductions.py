"""The oracle's reductions, contraction and random numbers, against simulated kernels in f32."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from tests.behaviour.oracle_package import load

o = load("_oracle")
checking = load("_check")

Formula = Callable[..., Any]
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16


def rows(generator: torch.Generator, terms: int, dtype: torch.dtype = F32, count: int = 200) -> Tensor:
    scale = torch.exp(torch.randn((count, 1), generator=generator))
    offset = torch.randn((count, 1), generator=generator)
    return (torch.randn((count, terms), generator=generator) * scale + offset).to(dtype)


def in_sequence(x: Tensor) -> Tensor:
    return x.cumsum(-1)[..., -1] if x.dtype == F64 else torch.cumsum(x, -1, dtype=F32)[..., -1]


def in_blocks(x: Tensor) -> Tensor:
    """Block sums, added one after the other."""
    total = torch.zeros_like(x[..., 0])
    for block in x.split(64, -1):
        total = total + block.sum(-1)
    return total


def softmax(x: Any) -> Any:
    shifted = o.exp(x - o.max_over(x, (-1,)).map(lambda t: t.unsqueeze(-1)))
    return shifted / o.sum_over(shifted, (-1,)).map(lambda t: t.unsqueeze(-1))


def rms_norm(x: Any) -> Any:
    mean = o.mean_over(x * x, (-1,)).map(lambda t: t.unsqueeze(-1))
    return x * o.rsqrt(mean + 1e-5)


REDUCTIONS: dict[str, tuple[Formula, tuple[Formula, ...]]] = {
    "sum": (lambda x: o.sum_over(x, (-1,)), (lambda x: x.sum(-1), in_sequence, in_blocks)),
    "mean": (
        lambda x: o.mean_over(x, (-1,)),
        (lambda x: x.mean(-1), lambda x: in_blocks(x) * (1 / x.shape[-1])),
    ),
    "variance": (
        lambda x: o.var_over(x, (-1,)),
        (
            lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1),
            lambda x: x.var(-1, unbiased=False),
        ),
    ),
    "max": (lambda x: o.max_over(x, (-1,)), (lambda x: x.amax(-1),)),
    "min": (lambda x: o.min_over(x, (-1,)), (lambda x: x.amin(-1),)),
    "logsumexp": (lambda x: o.logsumexp_over(x, (-1,)), (lambda x: torch.logsumexp(x, -1),)),
    "softmax": (softmax, (lambda x: torch.softmax(x, -1),)),
    "rms_norm": (rms_norm, (lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5),)),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64], ids=str)
@pytest.mark.parametrize("terms", [1, 2, 33, 300])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_right_reduction_never_fails(
    name: str, terms: int, dtype: torch.dtype, generator: torch.Generator
) -> None:
    formula, kernels = REDUCTIONS[name]
    report = checking.Report(name, terms)
    for kernel in kernels:
        x = rows(generator, terms, dtype)
        actual = kernel(x.to(F64 if dtype == F64 else F32)).to(dtype)
        checking.check(actual, formula(o.exact(x)), dtype, name=name, report=report)
    if terms > 2:  # the bounds of a mean of one or two cannot know that it is exact
        report.settle()


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("sum", lambda x: x[:, :-1].sum(-1)),
        ("sum", lambda x: x.sum(-1).bfloat16().float()),
        ("sum", lambda x: x.half().cumsum(-1)[:, -1].float()),
        ("mean", lambda x: x.sum(-1) / (x.shape[-1] - 1)),
        ("variance", lambda x: x.var(-1)),
        (
            "variance",
            lambda x: torch.cat([x, torch.zeros_like(x[:, :3])], 1).var(-1, unbiased=False),
        ),
        ("max", lambda x: x.clamp(min=0).amax(-1)),
        ("logsumexp", lambda x: torch.logsumexp(torch.cat([x, torch.zeros_like(x[:, :1])], 1), -1)),
        ("softmax", lambda x: torch.exp(x) / (torch.exp(x).sum(-1, keepdim=True) + 1)),
        ("rms_norm", lambda x: x / ((x * x).mean(-1, keepdim=True).sqrt() + 1e-5)),
        (
            "rms_norm",
            lambda x: x.bfloat16().float() * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5),
        ),
    ],
)
def test_a_faulty_reduction_fails(name: str, kernel: Formula, generator: torch.Generator) -> None:
    x = rows(generator, 125)
    x[0] = x[0].abs().neg() - 1
    with pytest.raises(AssertionError, match="elements are wrong"):
        checking.check(kernel(x), REDUCTIONS[name][0](o.exact(x)), F32, name=name)


def test_variance_from_squares_fails() -> None:
    x = torch.full((1, 10240), 256.0)
    x[0, 5] = 255.0
    naive = (x * x).mean(-1) - x.mean(-1) ** 2
    expected = o.var_over(o.exact(x), (-1,))
    checking.check(x.var(-1, unbiased=False), expected, F32, name="two passes")
    with pytest.raises(AssertionError):
        checking.check(naive - 0.0039, expected, F32, name="naive")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([3e38, 3e38], math.inf),
        ([], 0.0),
    ],
)
def test_special_sums(numbers: list[float], expected: float) -> None:
    result = o.sum_over(o.exact(torch.tensor(numbers, dtype=F32)), (0,))
    for end in (result.lo, result.hi):
        assert end.item() == expected or (math.isnan(expected) and end.isnan())


def test_a_sum_that_may_overflow_on_the_way_accepts_both() -> None:
    result = o.sum_over(o.exact(torch.tensor([3e38, 3e38, -3e38])), (0,))
    assert (result.value.item(), result.hi.item()) == (pytest.approx(3e38), math.inf)
    assert result.lo.item() < 3e38


def test_reductions_of_nothing() -> None:
    empty, none = o.exact(torch.zeros(2, 0)), o.exact(torch.zeros(2, 0, dtype=torch.bool))
    assert o.prod_over(empty, (1,)).value.tolist() == [1.0, 1.0]
    assert o.logsumexp_over(empty, (1,)).value.tolist() == [-math.inf] * 2
    assert o.mean_over(empty, (1,)).lo.isnan().all()
    assert o.var_over(empty, (1,)).lo.isnan().all()
    assert o.any_over(none, (1,)).value.tolist() == [False, False]
    assert o.all_over(none, (1,)).value.tolist() == [True, True]
    for reduction in (o.max_over, o.min_over, o.argmax_over, o.argmin_over):
        with pytest.raises(ValueError, match="nothing"):
            reduction(empty, (1,))


def test_integers_are_reduced_in_64_bits() -> None:
    x = o.exact(torch.full((4,), 2**31 - 1, dtype=torch.int32))
    assert (o.sum_over(x, (0,)).kind, o.sum_over(x, (0,)).value.item()) == ("i64", 4 * (2**31 - 1))
    assert o.prod_over(x.map(lambda t: t[:2]), (0,)).value.item() == (2**31 - 1) ** 2
    assert o.sum_over(o.exact(torch.tensor([True, True, False])), (0,)).value.item() == 2


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("terms", [1, 5, 16])
def test_products(terms: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    x = rows(generator, terms, dtype)
    expected = o.prod_over(o.exact(x), (-1,))
    for actual in (x.prod(-1), x.flip(-1).cumprod(-1)[:, -1]):
        checking.check(actual, expected, dtype, name="prod")
    with pytest.raises(AssertionError):
        checking.check(x.prod(-1) * (1 + 1e-4), expected, dtype, name="prod")


def test_positions_of_the_largest(generator: torch.Generator) -> None:
    x = torch.randint(-3, 4, (100, 4, 5), generator=generator).float()
    x[0, 1, 2] = x[0, 3, 4] = math.nan
    flat = x.reshape(100, 20)
    assert torch.equal(o.argmax_over(o.exact(x), (1, 2)).value, torch.argmax(flat, -1))
    assert torch.equal(o.argmin_over(o.exact(x), (1, 2)).value, torch.argmin(flat, -1))
    by_columns = o.argmax_over(o.exact(x), (2, 1)).value
    assert torch.equal(by_columns, torch.argmax(x.transpose(1, 2).reshape(100, 20), -1))
    assert o.argmax_over(o.exact(x), (1, 2)).slack.sum() == 0
    whole = torch.randint(-3, 4, (100, 20), generator=generator)
    assert torch.equal(o.argmin_over(o.exact(whole), (1,)).value, torch.argmin(whole, -1))


def test_a_near_tie_of_the_largest_is_open() -> None:
    x = o.sin(o.exact(torch.tensor([[0.1, 1.5, 1.5, 0.2], [0.1, 1.5, 1.4, 0.2]])))
    position = o.argmax_over(x, (1,))
    assert (position.lo.tolist(), position.hi.tolist()) == ([1, 1], [2, 1])
    assert position.slack.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64], ids=str)
@pytest.mark.parametrize("terms", [0, 1, 17, 300])
def test_contractions(terms: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    a = rows(generator, terms, dtype, 24)
    b = rows(generator, 20, dtype, terms)
    compute = F64 if dtype == F64 else F32
    wide_a, wide_b = a.to(compute), b.to(compute)
    in_halves = wide_a[:, ::2] @ wide_b[::2] + wide_a[:, 1::2] @ wide_b[1::2]
    report = checking.Report("matmul", terms)
    for actual in (wide_a @ wide_b, in_halves):
        expected = o.contract(o.exact(a), o.exact(b))
        checking.check(actual.to(dtype), expected, dtype, name="matmul", report=report)
    report.settle()


def narrowed(x: Tensor) -> Tensor:
    """tf32: ten bits of fraction."""
    return ((x.view(torch.int32) + 0x1000) & -0x2000).view(F32)


def test_faulty_contractions_fail(generator: torch.Generator) -> None:
    a, b = rows(generator, 129, count=30), rows(generator, 40, count=129)
    expected = o.contract(o.exact(a), o.exact(b))
    for actual in (
        narrowed(a) @ narrowed(b),
        a[:, :128] @ b[:128],
        a @ b + 1e-3,
        (a @ b).bfloat16().float(),
    ):
        with pytest.raises(AssertionError):
            checking.check(actual, expected, F32, name="matmul")
    checking.check(narrowed(a) @ narrowed(b), o.contract(o.exact(a), o.exact(b), 2.0**-11), F32, name="tf32")


def test_integer_contractions_wrap() -> None:
    ones = torch.full((2, 128), 127, dtype=torch.int8)
    result = o.contract(o.exact(ones), o.exact(ones.T))
    assert (result.kind, result.lo[0, 0].item()) == ("i32", 128 * 127 * 127)
    large = torch.full((1, 4), 2**30, dtype=torch.int32)
    assert o.contract(o.exact(large), o.exact(torch.ones(4, 1, dtype=torch.int32))).value.item() == 0


@triton.jit  # type: ignore[untyped-decorator]
def _rand(y, seed, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.rand(seed, i), mask=i < n)


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 7, 2**63 - 1])
def test_random_numbers_are_those_of_triton(seed: int, device: torch.device) -> None:
    y = torch.empty(1000, device=device)
    _rand[(1,)](y, seed, 1000, BLOCK=1024)
    assert torch.equal(o.rand((8, 125), seed).value.reshape(-1), y.cpu().to(F64))
