"""Specs that the language refuses: one diagnostic at the place, with a sentence that names what is wrong."""

import pytest

from opgen.diagnostics import SpecError
from opgen.pipeline import compile_specs
from opgen.source import Source

HEAD = "op f(x: f32[M], n: i32 = 1, o: f32[M] = 0) -> y: f32[M] "

#: A spec (a body alone stands behind `HEAD`), the text under the caret, and a part of the sentence.
ROWS = (
    ("op f(lambda: f32[M]) -> y: f32[M] { y = 1 }", "lambda", "is a word of Python"),
    ("op f(pi: f32[M]) -> y: f32[M] { y = 1 }", "pi", "is a constant"),
    ("op f(x: f32[M], M: f32) -> y: f32[M] { y = x }", "M", "is a dim of the op"),
    ("op f(x: T[M], T: f32) -> y: T[M] { y = x }", "T", "is a type variable"),
    ("op f(x: f32[M], out: f32) -> y: f32[M] { y = x }", "out", "cannot be named `out`"),
    ("op f(x: f32[M], a: f32 = 1, z: f32[M]) -> y: f32[M] { y = x }", "z", "no default"),
    ("op f(x: f32[N, N]) -> y: f32[N] { y = 1 }", "N", "occurs twice"),
    ("op f(x: f32[K, K / 4]) -> y: f32[K] { y = 1 }", "K / 4", "occur in one tensor"),
    ("op f(x: f32[M, ...]) -> y: f32[M] { y = 1 }", "...", "stands first"),
    ("op f(x: f32[0]) -> y: f32[3] { y = x }", "0", "positive integer"),
    ("op f(x: f32[M]) -> y: f32[N] { y = 1 }", "N", "cannot be left out"),
    ("op f(x: f32[M], b: f32[N] = 0) -> y: f32[M] { y = x + N }", "N", "cannot be left out"),
    ("op f(x: f32[M]) -> y: T[M] { y = x }", "T", "cannot be left out"),
    ("op f(x: f32[M] = 0) -> y: f32[3] { y = 1 }", "f", "needs a tensor that cannot be left out"),
    ("op f(s: f32) -> y: f32[3] { y = s }", "f", "needs a tensor that cannot be left out"),
    ("op f(x: f32[M], a: T) -> y: f32[M] { y = x * a }", "T", "concrete type"),
    ("op f(x: f32[M], const c: f16) -> y: f32[M] { y = x }", "f16", "`const` is"),
    ("op f(x: f32[M], c: i4) -> y: f32[M] { y = x }", "i4", "tensors only"),
    ("op f(x: f32[M], c: i8 = 300) -> y: f32[M] { y = x }", "300", "does not fit i8"),
    ("op f(x: f32[M], c: i32[M] = 0.5) -> y: f32[M] { y = x }", "0.5", "integer"),
    ("op f(x: u4[]) -> y: f32[] { y = x }", "u4[]", "packed along the last dim"),
    ("op f(x: u4[M, 3]) -> y: f32[M, 3] { y = x }", "3", "must be even"),
    ("op f(x: u4[...]) -> y: f32[...] { y = x }", "...", "a dim of its own"),
    ("op f(x: T[M]) -> y: T[M] for T in {i4, u8} { y = x }", "i4", "two to each"),
    ("op f(x: f32[M]) -> y: i4[M] { y = 1 }", "y", "no kernel yet"),
    ("op f(inout x: u4[M]) { x = 1 }", "x", "no kernel yet"),
    ("op f(x: f32[M]) { y = x }", "f", "no result"),
    ("op f(inout x: f32[M]) { y = x }", "x", "never assigned"),
    ("op f(inout x: f32[M]) { x = 1 x = 2 }", "x", "assigned twice"),
    ("op f(x: f32[K / 4], z: f32[K / 6]) -> y: f32[K] { y = x * z }", "x * z", "do not meet"),
    ("op f(x: f32[K], z: f32[K / 4]) -> y: f32[K / 4] { y = x * z }", "x * z", "lacks the dim `K`"),
    ("{ y = x x = y }", "x", "not `inout`"),
    ("{ z = x }", "y", "never assigned"),
    ("{ y = b b = x }", "b", "before it is assigned"),
    ("{ M = x y = x }", "M", "is a dim of the op"),
    ("{ y = where(0 < x < 1, x, 0) }", "0 < x < 1", "do not chain"),
    ("{ y = where(x, x, x) }", "x", "must be a bool"),
    ("{ y = x and x }", "x", "takes bools"),
    ("{ y = x << 1 }", "x", "takes integers"),
    ("{ y = x * 1e400 }", "1e400", "too large"),
    ("{ y = x[M: n + 99999999999999999999] }", "99999999999999999999", "does not fit i64"),
    ("{ y = x * (1 // 0) }", "1 // 0", "by zero"),
    ("{ y = foo(x) }", "foo", "unknown function"),
    ("{ y = clamp(x, 0) }", "clamp(x, 0)", "takes 3 arguments"),
    ("{ y = cast(x, i4) }", "cast(x, i4)", "no kernel yet"),
    ("{ y = x + index[...] }", "...", "not allowed"),
    ("{ y = x[M: 0.5] }", "0.5", "must be an integer"),
    ("{ y = o[M: 0] }", "o", "may be left out"),
    ("{ t = x y = t[M: 0] }", "t", "only parameters"),
    ("{ y = rand[M](x) }", "x", "integer without dims"),
    ("{ y = rand[N](1) }", "N", "unknown dim"),
    ("{ require n > 0 y = x }", "n", "cannot read `n`"),
    ("{ require M y = x }", "M", "is a condition"),
    ("op f(x: f32[M]) -> y: i32[M] { y = x }", "x", "an integer"),
    ("op f(x: i32[M]) -> y: bool[M] { y = x }", "x", "is a bool"),
    ("fn g(x) = g(x) op f(x: f32[M]) -> y: f32[M] { y = g(x) }", "g", "cannot call themselves"),
    ("fn exp(x) = x op f(x: f32[M]) -> y: f32[M] { y = exp(x) }", "exp", "cannot be shadowed"),
    ("fn g[C](x) = x * C op f(x: f32[M]) -> y: f32[M] { y = g(x) }", "g(x)", "takes 1 dim"),
    ("op __init__(x: f32[M]) -> y: f32[M] { y = x }", "__init__", "module of that name"),
)


@pytest.mark.parametrize(("spec", "place", "sentence"), ROWS, ids=lambda text: text[:40])
def test_each_mistake_is_one_diagnostic_at_its_place(spec: str, place: str, sentence: str) -> None:
    text = HEAD + spec if spec.startswith("{") else spec

    def read(path: str) -> Source:
        raise FileNotFoundError(path)

    with pytest.raises(SpecError) as caught:
        compile_specs([Source("spec.op", text)], targets=("sm_90",), read=read)
    found = [one for one in caught.value.diagnostics if sentence in one.message]
    assert found, str(caught.value)
    assert text[found[0].span.start : found[0].span.end] == place
    assert "^" in str(caught.value)
