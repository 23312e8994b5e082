"""Plans of elementwise kernels: how much of a tensor a thread takes at a time."""

import pytest

from opgen.diagnostics import SpecError
from opgen.plan.model import ElementwiseConfig, ElementwisePlan
from opgen.plan.op import plan_op
from opgen.targets import TARGETS
from tests.lowering import lowered


def config(signature: str, formula: str, width: int) -> ElementwiseConfig:
    """The config for elements of a width, in bytes, on an H200."""
    text = f"op f({signature}) -> y: T[...] for T in {{f16, bf16, f32}} {{ y = {formula} }}"
    (op,) = lowered(text).ops
    (kernel,) = plan_op(op, (TARGETS["sm_90"],))[0].kernels
    assert isinstance(kernel, ElementwisePlan)
    return next(one for one in kernel.configs if one.width == width)


@pytest.mark.parametrize(
    ("signature", "formula", "width", "accesses"),
    [
        ("x: T[...]", "x * sigmoid(x)", 2, 1),
        ("x: T[...]", "gelu(x)", 2, 2),  # bound by instructions
        ("x: T[...], seed: i64", "x * rand[...](seed)", 2, 2),
        ("x: T[...], z: T[...]", "gelu(x) * z", 2, 1),
        ("x: T[...]", "x * sigmoid(x)", 4, 2),
    ],
)
def test_threads_take_16_bytes_of_a_tensor_once_or_twice(
    signature: str, formula: str, width: int, accesses: int
) -> None:
    one = config(signature, formula, width)
    assert one.block * width == accesses * 16 * 32 * one.warps


def test_what_is_read_across_has_tiles_by_width() -> None:
    assert [config("x: T[...]", "x + 1", width).turned for width in (2, 4)] == [(128, 32), (64, 64)]


@pytest.mark.parametrize("name", ["_normal_cdf", "_log1p_unit", "_minus_abs"])
def test_steps_of_the_prelude_are_its_own(name: str) -> None:
    text = f"op f(x: f32[...]) -> y: f32[...] {{ y = {name}(x) }}"
    with pytest.raises(SpecError, match=f"unknown function `{name}`"):
        lowered(text)
