"""The generated tests of ops that are not shipped: what these have in their signatures, the tests can make calls of."""

import importlib
from pathlib import Path

import pytest
import torch

from tests.behaviour.building import build_package

COARSE = """
op f(x: f32[..., K], s: f32[..., K / 8]) -> (y: f16[..., K], z: f32[..., K / 4]) {
  y = x * s
  z = s + 1
}
"""
COARSE_FIRST = """
op f(x: f32[K / 2, M], s: f32[K]) -> (z: f32[M, K / 2], y: f32[K, M]) {
  z = x * 2
  y = x * s
}
"""
INTEGERS_TO_FLOATS = """
op f(ids: i64[...], table: u4[V, D], n: i32[...], b: bool[D]) -> (y: f32[..., D], z: f16[...], w: f64[D]) {
  y = table[V: ids]
  z = n + 1
  w = b
}
"""
FIXED = """
op f(x: f32[..., 3], g: f16[K]) -> (y: f32[..., 3, K, 2], z: f32[..., 3], w: f16[5, K]) {
  y = x * g
  z = x + 1
  w = g * 2
}
"""
FIXED_AT_END = "op f(x: f32[...]) -> y: f32[..., 3] { y = x * 2 }"
FIXED_POSITIONS = "op f(x: f32[M]) -> y: f32[M] { y = x * sum[5](index[5]) }"
LEADING_ALONE = "op f(x: f32[...]) -> y: f32[...] { y = x - logsumexp[...](x) }"
NOTHING_KEPT = "op f(x: f32[A, B]) -> y: f32[B, A] { y = x - max[A, B](x) }"
NARROW_SUM = "op f(x: T[M, C]) -> y: f32[C] for T in {f8e4m3, f16, f32} { y = sum[M](x) }"
SPREAD_OF_BOOLS = "op f(x: bool[M, C]) -> y: f32[M] { y = var[C](x) }"
LONG_PRODUCT = "op f(x: f32[A, B, C]) -> y: f32[B] { y = prod[A, C](x) }"
ALL_REDUCED = "op f(x: T[..., C]) -> y: f32[] { y = max[..., C](x) }"
FEW_SUMS = "op f(x: f32[M, C], w: f32[C]) -> y: f32[M] { y = sum[C](w) }"
CHAINED = "op f(x: T[M, C]) -> y: T[M, C] { y = normalize[C](normalize[C](x, 1e-5), 1e-5) }"
SUM_OF_GATHERED = (
    "op f(x: f32[B, L], w: f32[W]) -> y: f32[B, L] { y = sum[W](x[L: index[L] - index[W]] * w) }"
)
SUM_AND_SIZES = "op f(x: f32[M, C]) -> y: f32[M] { y = sum[C](x) + M * C // 2 }"
MIRRORED = """
op f(x: T[..., N], w: f16[N]) -> (y: T[..., N], p: i64[..., N], s: f32[..., N]) for T in {f32, f16} {
  require N % 4 == 0
  y = x[N: N - 1 - index[N]] + w
  p = index[N] * N
  s = cast(index[N], f32) / N
}
"""
MIRRORED_NIBBLES = """
op f(q: u4[M, N], x: f32[N / 2, M]) -> y: f32[M, N] { y = q[N: N - 1 - index[N], M: M - 1 - index[M]] + x }
"""
SPECS = {
    "coarse": COARSE,
    "coarse_first": COARSE_FIRST,
    "integers_to_floats": INTEGERS_TO_FLOATS,
    "fixed": FIXED,
    "fixed_at_end": FIXED_AT_END,
    "fixed_positions": FIXED_POSITIONS,
    "leading_alone": LEADING_ALONE,
    "nothing_kept": NOTHING_KEPT,
    "narrow_sum": NARROW_SUM,
    "spread_of_bools": SPREAD_OF_BOOLS,
    "long_product": LONG_PRODUCT,
    "all_reduced": ALL_REDUCED,
    "few_sums": FEW_SUMS,
    "sum_of_gathered": SUM_OF_GATHERED,
    "sum_and_sizes": SUM_AND_SIZES,
    "chained": CHAINED,
    "mirrored": MIRRORED,
    "mirrored_nibbles": MIRRORED_NIBBLES,
}


@pytest.mark.parametrize("name", SPECS)
def test_generated_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGEN_EXAMPLES", "10")
    package = build_package(SPECS[name], tmp_path).__name__
    if not torch.cuda.is_available():
        importlib.import_module(f"{package}.tests._interpreter").install()
    tests = vars(importlib.import_module(f"{package}.tests.test_f"))
    checks = [check for key, check in tests.items() if key.startswith("test_")]
    assert len(checks) >= 9
    for check in checks:
        check()
