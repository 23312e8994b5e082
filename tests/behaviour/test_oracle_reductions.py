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
    shifted = o.exp(x - o.max_over(x, "M K", "K"))
    return shifted / o.sum_over(shifted, "M K", "K")


def rms_norm(x: Any) -> Any:
    return x * o.rsqrt(o.mean_over(x * x, "M K", "K") + 1e-5)


def of_rows(reduction: Formula) -> Formula:
    """A reduction of the last dim, which goes."""
    return lambda x: reduction(x, "... K", "K").map(lambda tensor: tensor.squeeze(-1))


def matmul(a: Any, b: Any, precision: str = "ieee") -> Any:
    return o.contract(a, "M K", b, "K N", "K", precision)


REDUCTIONS: dict[str, tuple[Formula, tuple[Formula, ...]]] = {
    "sum": (of_rows(o.sum_over), (lambda x: x.sum(-1), in_sequence, in_blocks)),
    "mean": (
        of_rows(o.mean_over),
        (lambda x: x.mean(-1), lambda x: in_blocks(x) * (1 / x.shape[-1])),
    ),
    "variance": (
        of_rows(o.var_over),
        (
            lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1),
            lambda x: x.var(-1, unbiased=False),
        ),
    ),
    "max": (of_rows(o.max_over), (lambda x: x.amax(-1),)),
    "min": (of_rows(o.min_over), (lambda x: x.amin(-1),)),
    "logsumexp": (of_rows(o.logsumexp_over), (lambda x: torch.logsumexp(x, -1),)),
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
    expected = of_rows(o.var_over)(o.exact(x))
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
    result = of_rows(o.sum_over)(o.exact(torch.tensor(numbers, dtype=F32)))
    for end in (result.lo, result.hi):
        assert end.item() == expected or (math.isnan(expected) and end.isnan())


def test_a_sum_that_may_overflow_on_the_way_accepts_both() -> None:
    result = of_rows(o.sum_over)(o.exact(torch.tensor([3e38, 3e38, -3e38])))
    assert (result.value.item(), result.hi.item()) == (pytest.approx(3e38), math.inf)
    assert result.lo.item() < 3e38


def test_reductions_of_nothing() -> None:
    empty, none = o.exact(torch.zeros(2, 0)), o.exact(torch.zeros(2, 0, dtype=torch.bool))
    assert of_rows(o.prod_over)(empty).value.tolist() == [1.0, 1.0]
    assert of_rows(o.logsumexp_over)(empty).value.tolist() == [-math.inf] * 2
    assert of_rows(o.mean_over)(empty).lo.isnan().all()
    assert of_rows(o.var_over)(empty).lo.isnan().all()
    assert of_rows(o.any_over)(none).value.tolist() == [False, False]
    assert of_rows(o.all_over)(none).value.tolist() == [True, True]
    for reduction in (o.max_over, o.min_over, o.argmax_over, o.argmin_over):
        extreme = reduction(empty, "M K", "K")
        with pytest.raises(AssertionError, match="extreme of nothing"):
            checking.check(extreme.value.float(), extreme + 1.0, F32, name="extreme")
        nothing = empty - extreme  # has no element that needs it
        checking.check(torch.zeros(2, 0), nothing, F32, name="nothing")


def test_integers_are_reduced_in_64_bits() -> None:
    x = o.exact(torch.full((4,), 2**31 - 1, dtype=torch.int32))
    assert (of_rows(o.sum_over)(x).kind, of_rows(o.sum_over)(x).value.item()) == ("i64", 4 * (2**31 - 1))
    assert of_rows(o.prod_over)(x.map(lambda t: t[:2])).value.item() == (2**31 - 1) ** 2
    assert of_rows(o.sum_over)(o.exact(torch.tensor([True, True, False]))).value.item() == 2


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("terms", [1, 5, 16])
def test_products(terms: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    x = rows(generator, terms, dtype)
    expected = of_rows(o.prod_over)(o.exact(x))
    for actual in (x.prod(-1), x.flip(-1).cumprod(-1)[:, -1]):
        checking.check(actual, expected, dtype, name="prod")
    with pytest.raises(AssertionError):
        checking.check(x.prod(-1) * (1 + 1e-4), expected, dtype, name="prod")


def test_positions_of_the_largest(generator: torch.Generator) -> None:
    x = torch.randint(-3, 4, (100, 4, 5), generator=generator).float()
    x[0, 1, 2] = x[0, 3, 4] = math.nan
    flat = x.reshape(100, 20)
    assert torch.equal(o.argmax_over(o.exact(x), "B M N", "M N").value[:, 0, 0], torch.argmax(flat, -1))
    assert torch.equal(o.argmin_over(o.exact(x), "B M N", "M N").value[:, 0, 0], torch.argmin(flat, -1))
    by_columns = o.argmax_over(o.exact(x), "B M N", "N M").value[:, 0, 0]
    assert torch.equal(by_columns, torch.argmax(x.transpose(1, 2).reshape(100, 20), -1))
    assert o.argmax_over(o.exact(x), "B M N", "M N").slack.sum() == 0
    whole = torch.randint(-3, 4, (100, 20), generator=generator)
    assert torch.equal(of_rows(o.argmin_over)(o.exact(whole)).value, torch.argmin(whole, -1))


def test_a_near_tie_of_the_largest_is_open() -> None:
    x = o.sin(o.exact(torch.tensor([[0.1, 1.5, 1.5, 0.2], [0.1, 1.5, 1.4, 0.2]])))
    position = of_rows(o.argmax_over)(x)
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
        expected = matmul(o.exact(a), o.exact(b))
        checking.check(actual.to(dtype), expected, dtype, name="matmul", report=report)
    report.settle()


def narrowed(x: Tensor) -> Tensor:
    """tf32: ten bits of fraction."""
    return ((x.view(torch.int32) + 0x1000) & -0x2000).view(F32)


def test_faulty_contractions_fail(generator: torch.Generator) -> None:
    a, b = rows(generator, 129, count=30), rows(generator, 40, count=129)
    expected = matmul(o.exact(a), o.exact(b))
    for actual in (
        narrowed(a) @ narrowed(b),
        a[:, :128] @ b[:128],
        a @ b + 1e-3,
        (a @ b).bfloat16().float(),
    ):
        with pytest.raises(AssertionError):
            checking.check(actual, expected, F32, name="matmul")
    checking.check(narrowed(a) @ narrowed(b), matmul(o.exact(a), o.exact(b), "tf32"), F32, name="tf32")


def truncated(x: Tensor) -> Tensor:
    """tf32 as matrix units that drop the low bits of their operands have it."""
    return (x.view(torch.int32) & -0x2000).view(F32)


def test_tf32_narrows_what_it_cannot_hold(generator: torch.Generator) -> None:
    a, b = rows(generator, 129, count=30), rows(generator, 40, count=129)
    expected = matmul(o.exact(a), o.exact(b), "tf32")
    checking.check(truncated(a) @ truncated(b), expected, F32, name="tf32")
    with pytest.raises(AssertionError):
        checking.check(truncated(a)[:, :128] @ truncated(b)[:128], expected, F32, name="tf32")
    halves = [o.exact(x.bfloat16()) for x in (a, b)]
    assert torch.equal(matmul(halves[0], halves[1], "tf32").lo, matmul(halves[0], halves[1]).lo)
    three = truncated(a) @ truncated(b) + truncated(a - truncated(a)) @ truncated(b)
    three = three + truncated(a) @ truncated(b - truncated(b))
    expected = matmul(o.exact(a), o.exact(b), "tf32x3")
    checking.check(three, expected, F32, name="tf32x3")
    with pytest.raises(AssertionError):
        checking.check(truncated(a) @ truncated(b), expected, F32, name="tf32x3")


DIMS = (
    ("... M K", "K N", "lmk,kn->lmn"),
    ("... M K", "N K", "lmk,nk->lmn"),
    ("N K", "... K M", "nk,lkm->lnm"),
    ("... M K", "... K N", "lmk,lkn->lmn"),
    ("B M K", "N B K", "bmk,nbk->bmn"),
    ("B K", "K B", "bk,kb->b"),
    ("M K", "K", "mk,k->m"),
)


@pytest.mark.parametrize(("left", "right", "equation"), DIMS)
def test_contractions_by_name(left: str, right: str, equation: str, generator: torch.Generator) -> None:
    sizes = {"...": 5, "M": 2, "N": 3, "K": 4, "B": 6}
    a, b = (
        torch.randn([sizes[name] for name in dims.split()], generator=generator) for dims in (left, right)
    )
    result = o.contract(o.exact(a), left, o.exact(b), right, "K")
    assert torch.allclose(result.value, torch.einsum(equation, a.double(), b.double()), rtol=1e-12)
    whole = [o.exact((x * 100).int()) for x in (a, b)]
    result = o.contract(whole[0], left, whole[1], right, "K")
    assert torch.equal(result.lo, torch.einsum(equation, *(x.value for x in whole)))


@pytest.mark.parametrize("dims", ["... M N", "M N", "... N"])
def test_reductions_by_name_keep_named_dims_only(dims: str, generator: torch.Generator) -> None:
    sizes = {"...": (3, 2), "M": (4,), "N": (5,)}
    x = torch.randn([size for name in dims.split() for size in sizes[name]], generator=generator)
    exact = o.exact(x)
    assert o.sum_over(exact, dims, "N").shape == (*x.shape[:-1], 1)
    assert torch.allclose(o.sum_over(exact, dims, "N").value, x.double().sum(-1, keepdim=True))
    if "..." in dims:
        assert o.sum_over(exact, dims, "...").shape == x.shape[2:]
        assert torch.allclose(o.sum_over(exact, dims, "...").value, x.double().sum((0, 1)))
        assert o.max_over(exact, dims, "... N").value.flatten().max() == x.max()
        assert o.max_over(exact, dims, "... N").shape == (*x.shape[2:-1], 1)


def test_integer_contractions_of_open_decisions_have_an_interval() -> None:
    open_one = o.cast(o.round_even(o.exact(torch.tensor([[5.0, 15.0]])) / 10.0), torch.int8)
    assert (open_one.lo.tolist(), open_one.hi.tolist()) == ([[0, 1]], [[1, 2]])
    b = torch.tensor([[3], [-7]], dtype=torch.int8)
    result = matmul(open_one, o.exact(b))
    assert result.lo.item() <= 3 * 0 - 7 * 2
    assert result.hi.item() >= 3 * 1 - 7 * 1
    assert result.slack.item() == 1.0
    wide = o.where(open_one == 0, 2**30, o.exact(torch.zeros(1, 2, dtype=torch.int32)))
    anything = matmul(wide, o.exact(torch.full((2, 1), 4, dtype=torch.int32)))
    assert (anything.lo.item(), anything.hi.item()) == (-(2**31), 2**31 - 1)


def test_integer_contractions_wrap() -> None:
    ones = torch.full((2, 128), 127, dtype=torch.int8)
    result = matmul(o.exact(ones), o.exact(ones.T))
    assert (result.kind, result.lo[0, 0].item()) == ("i32", 128 * 127 * 127)
    large = torch.full((1, 4), 2**30, dtype=torch.int32)
    assert matmul(o.exact(large), o.exact(torch.ones(4, 1, dtype=torch.int32))).value.item() == 0


@triton.jit  # type: ignore[untyped-decorator]
def _rand(y, seed, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.rand(seed, i), mask=i < n)


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 7, 2**63 - 1])
def test_random_numbers_are_those_of_triton(seed: int, device: torch.device) -> None:
    y = torch.empty(1000, device=device)
    _rand[(1,)](y, seed, 1000, BLOCK=1024)
    assert torch.equal(o.rand((8, 125), seed).value.reshape(-1), y.cpu().to(F64))
