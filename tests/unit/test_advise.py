"""Advice: work counted from the graph, the model against recorded measurements, verdicts, and the command."""

import json
import math
from pathlib import Path

import pytest

from opgen.advise import rates
from opgen.advise.counts import total_bytes, total_operations
from opgen.advise.library import Launch, launches_of
from opgen.advise.model import Advice, Bound, Verdict, advise
from opgen.advise.setting import given_sizes, missing, settings
from opgen.cli import main
from opgen.ir.lower import lower
from opgen.ir.nodes import Op
from opgen.source import Source
from opgen.syntax.parse import parse
from opgen.targets import TARGETS

SPEC = """
op swish(x: T[...], beta: f32 = 1.0) -> y: T[...] {
  y = x * sigmoid(beta * x)
  reference "x * torch.sigmoid(beta * x)"
}
op gelu(x: T[...]) -> y: T[...] { y = gelu(x) reference "F.gelu(x)" }
op relu(x: T[...]) -> y: T[...] { y = relu(x) }
op scaled(x: T[..., N], s: f32[N], b: T[N]) -> y: T[..., N] { y = (x * s + b) * x }
op looked_up(ids: i64[...], table: T[V, D]) -> y: T[..., D] { y = table[V: ids] * 2 }
op softmax(x: T[..., C]) -> y: T[..., C] { y = softmax[C](x) }
op layer_norm_swish(x: T[..., C], gamma: T[C], beta: T[C], eps: f32 = 1e-5) -> y: T[..., C] {
  h = normalize[C](x, eps) * gamma + beta
  y = h * sigmoid(h)
  reference "F.silu(F.layer_norm(x, (x.shape[-1],), gamma, beta, eps))"
}
op linear_silu(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] { y = silu(x @ w + b) }
op swiglu(x: T[..., K], w: T[N, K], v: T[N, K]) -> y: T[..., N] { y = silu(x @ w) * (x @ v) }
op matmul(x: T[M, K], w: T[N, K]) -> y: T[M, N] { y = x @ w }
op normed(x: T[M, K], w: T[N, K]) -> y: T[M, N] { y = softmax[N](x @ w) }
op exact(x: f32[M, K], w: f32[N, K]) -> y: f32[M, N] { y = relu(x @ w) }
op rough(x: f32[M, K], w: f32[N, K]) -> y: f32[M, N] { y = relu(x @ w) tile { precision = tf32 } }
op quantised(x: T[...], s: f32) -> y: f8e4m3[...] {
  y = cast(x / s, f8e4m3)
  reference "(x / s).clamp(-448.0, 448.0)"
}
"""


def read(name: str) -> Source:
    raise FileNotFoundError(name)


OPS: dict[str, Op] = {op.name: op for op in lower(parse(Source("some.op", SPEC)), read=read).ops}


def advice(op: str, on: str = "sm_90", of: str = "bf16", /, **sizes: int) -> Advice:
    """`ELLIPSIS=4` stands for `...=4`."""
    texts = [f"{'...' if key == 'ELLIPSIS' else key}={size}" for key, size in sizes.items()]
    fixed = not OPS[op].variables
    (setting,) = settings(OPS[op], texts, None if fixed else [of])
    return advise(setting, TARGETS[on])


# --- counts -------------------------------------------------------------------------------------


def test_elementwise_bytes() -> None:
    found = advice("swish", ELLIPSIS=1000).work
    assert total_bytes(found.fused) == 1000 * 2 * 2
    assert [kernel.what for kernel in found.eager] == ["mult", "sigmoid", "mult"]
    assert total_bytes(found.eager) == 1000 * 2 * (2 + 2 + 3)
    assert found.library == ()
    assert total_bytes(advice("swish", "sm_90", "f32", ELLIPSIS=1000).work.fused) == 1000 * 4 * 2


def test_broadcasts_are_read_once() -> None:
    found = advice("scaled", ELLIPSIS=6, N=32).work
    assert total_bytes(found.fused) == 2 * 6 * 32 * 2 + 32 * 4 + 32 * 2
    # Without a reference of its own it runs as the generated one: in f32, and cast back.
    x, wide, s, b = 6 * 32 * 2, 6 * 32 * 4, 32 * 4, 32 * 2
    assert [(kernel.what, kernel.bytes) for kernel in found.eager] == [
        ("cast", x + wide),
        ("mul", wide + s + wide),
        ("cast", b + 2 * b),
        ("add", wide + 2 * b + wide),
        ("mul", wide + wide + wide),
        ("cast", wide + x),
    ]
    # Where an operand is repeated, PyTorch finds each element's place.
    assert [bool(kernel.addressing) for kernel in found.eager] == [False, True, False, True, False, False]


def test_of_a_table_what_is_gathered_counts() -> None:
    small = advice("looked_up", ELLIPSIS=10, V=1000, D=8).work
    assert total_bytes(small.fused) == 10 * 8 + 10 * 8 * 2 * 2
    all_of_it = advice("looked_up", ELLIPSIS=1000, V=3, D=8).work
    assert total_bytes(all_of_it.fused) == 1000 * 8 + 3 * 8 * 2 + 1000 * 8 * 2


def test_product_operations() -> None:
    found = advice("linear_silu", ELLIPSIS=64, N=32, K=128).work
    (product,) = found.products
    assert (product.m, product.n, product.k, product.dtype) == (64, 32, 128, "bf16")
    assert product.operations == 2 * 64 * 32 * 128
    assert total_operations(found.fused) > product.operations
    assert total_bytes(found.fused) == 2 * (64 * 128 + 32 * 128 + 32 + 64 * 32)
    assert [kernel.what for kernel in found.eager] == [
        "contract",
        "mul",
    ]  # the bias and the gate come for free
    assert [kernel.what for kernel in found.library] == ["library product", "epilogue"]
    assert found.library[0].bytes == 2 * (64 * 128 + 32 * 128 + 64 * 32)
    assert found.library[1].bytes == 2 * (64 * 32 * 2 + 32)


def test_two_products_and_what_lies_between_kernels() -> None:
    found = advice("swiglu", ELLIPSIS=64, N=32, K=128).work
    assert len(found.products) == 2
    assert [kernel.what for kernel in found.library].count("library product") == 2
    cut = advice("normed", M=64, N=32, K=128).work
    assert len(cut.fused) == 2
    assert total_bytes(cut.fused) == 2 * (64 * 128 + 32 * 128 + 64 * 32) + 2 * 4 * 64 * 32
    assert cut.fused[1].reduces


def test_f32_products_are_exact_unless_asked() -> None:
    assert advice("exact", M=64, N=64, K=64).work.products[0].dtype == "f32 ieee"
    assert advice("rough", M=64, N=64, K=64).work.products[0].dtype == "f32"
    slow, fast = advice("exact", M=4096, N=4096, K=4096), advice("rough", M=4096, N=4096, K=4096)
    assert slow.times.fused > 5 * fast.times.fused


def test_a_narrow_result_is_cast_in_eager() -> None:
    found = advice("quantised", ELLIPSIS=1000).work
    assert [kernel.what for kernel in found.eager] == ["div", "clamp", "cast"]
    assert [kernel.bytes for kernel in found.eager] == [4000, 4000, 3000]


@pytest.mark.parametrize(
    ("reference", "statements", "found"),
    [
        ("F.gelu(x, approximate='tanh')", (), (Launch("gelu", 8, 8, False),)),
        ("torch.softmax(x, -1)", (), (Launch("softmax", 8, 8, True),)),
        ("x * (1 / s)", (), (Launch("mult", 8, 8, False),)),
        ("x + b", (), (Launch("add", 10, 8, False, True),)),
        ("F.relu(x).square()", (), (Launch("relu", 8, 8, False), Launch("square", 8, 8, False))),
        (None, ("h = x * s", "y = relu(h)"), (Launch("mult", 8, 8, False), Launch("relu", 8, 8, False))),
        (None, ("y = softmax[C](x)",), (Launch("softmax", 8, 8, True),)),
        ("F.rms_norm(x, (x.shape[-1],), b)", (), (Launch("rms_norm", 10, 8, True),)),
        (None, ("y = rms_norm[C](x)",), None),
        (None, ("y = mean[C](x)",), None),
        (None, ("y = x @ x",), None),
        ("x.unknown()", ("y = relu(x)",), None),
    ],
)
def test_what_pytorch_has_as_one_kernel(
    reference: str | None, statements: tuple[str, ...], found: tuple[Launch, ...] | None
) -> None:
    assert launches_of(reference, statements, {"x": 8, "b": 2, "s": 0}) == found


# --- the model ----------------------------------------------------------------------------------

LARGE = 2**27

#: Measured on an H200 (benchmarks/elementwise.md and others): op, sizes, eager and fused, in us.
RECORDED = [
    ("swish", {"ELLIPSIS": LARGE}, 453.8, 130.4),
    ("layer_norm_swish", {"ELLIPSIS": 16384, "C": 4096}, 175.9, 78.3),
    ("layer_norm_swish", {"ELLIPSIS": 8192, "C": 16384}, 376.2, 182.7),
    ("linear_silu", {"ELLIPSIS": 2048, "N": 16384, "K": 4096}, 418.5, 409.5),
    ("linear_silu", {"ELLIPSIS": 8192, "N": 8192, "K": 8192}, 1627.7, 1590.6),
    ("linear_silu", {"ELLIPSIS": 512, "N": 14336, "K": 4096}, 102.0, 99.6),
    ("linear_silu", {"ELLIPSIS": 512, "N": 11008, "K": 4096}, 74.3, 97.9),
    ("linear_silu", {"ELLIPSIS": 256, "N": 4096, "K": 14336}, 61.4, 64.2),
    ("linear_silu", {"ELLIPSIS": 64, "N": 14336, "K": 4096}, 47.1, 44.8),
    ("linear_silu", {"ELLIPSIS": 1, "N": 14336, "K": 4096}, 44.8, 39.6),
    ("linear_silu", {"ELLIPSIS": 16, "N": 4096, "K": 4096}, 22.3, 18.8),
    ("swiglu", {"ELLIPSIS": 4096, "N": 14336, "K": 4096}, 1518.8, 1453.2),
    ("swiglu", {"ELLIPSIS": 1024, "N": 14336, "K": 4096}, 383.9, 364.2),
]


def test_the_model_fits_what_it_was_made_from() -> None:
    """Within 10 % on geometric mean, each within a quarter. The rates were fitted to these rows: it proves no more."""
    errors = []
    for name, sizes, eager, fused in RECORDED:
        times = advice(name, **sizes).times
        errors += [abs(math.log(times.eager / eager)), abs(math.log(times.fused / fused))]
    assert math.exp(sum(errors) / len(errors)) < 1.10
    assert math.exp(max(errors)) < 1.25


def test_products_take_whole_waves_of_tiles() -> None:
    """512 x 14,080 has 220 tiles of 128 x 256, 512 x 16,640 has 260: both go in two waves over 132 multiprocessors."""
    wide = advice("linear_silu", ELLIPSIS=512, N=16640, K=4096).times
    narrow = advice("linear_silu", ELLIPSIS=512, N=14080, K=4096).times
    assert narrow.fused == pytest.approx(wide.fused, rel=0.05)
    assert narrow.eager < 0.9 * wide.eager  # the library has finer tiles


def test_waves_that_idle_are_left_to_the_library() -> None:
    """512 x 11,008 has 172 tiles, for two waves of 132."""
    found = advice("linear_silu", ELLIPSIS=512, N=11008, K=4096).times
    assert found.library is not None
    assert found.fused == pytest.approx(found.library, rel=0.1)


def test_elements_by_themselves() -> None:
    """Triton moves whole vectors where a kernel's bound is a multiple of 4."""
    even, odd = advice("swish", ELLIPSIS=2**24 + 4), advice("swish", ELLIPSIS=2**24 + 2)
    assert (even.work.fused[0].scattered, odd.work.fused[0].scattered) == (0, 16 * (2**24 + 2))
    assert odd.times.fused > 2.5 * even.times.fused
    even, odd = advice("scaled", ELLIPSIS=64, N=4100), advice("scaled", ELLIPSIS=64, N=4102)
    assert even.work.fused[0].addressing == 0 < odd.work.fused[0].addressing


def test_rows_in_registers_are_rounded_up() -> None:
    """4,104 columns take as many instructions as 8,192."""
    fits, spills = (advice("layer_norm_swish", ELLIPSIS=65536, C=columns).times for columns in (4096, 4104))
    assert spills.fused > 1.5 * fits.fused


@pytest.mark.parametrize("target", TARGETS)
def test_no_time_beats_the_roofline(target: str) -> None:
    for name, sizes, _, _ in RECORDED:
        found = advice(name, target, **sizes)
        assert min(found.times.eager, found.times.fused) >= found.limit
        assert found.times.library is None or found.times.library >= found.limit


def test_verdicts() -> None:
    chain = advice("swish", ELLIPSIS=LARGE)
    assert (chain.verdict, chain.bound) == (Verdict.FUSE, Bound.BANDWIDTH)
    assert "3 kernels of eager move 3.5 times the bytes" in chain.reason
    small = advice("swish", ELLIPSIS=4096)
    assert (small.verdict, small.bound) == (Verdict.GRAPH, Bound.LAUNCH)
    for name in ("gelu", "relu"):
        assert advice(name, ELLIPSIS=LARGE).verdict is Verdict.LEAVE
    assert advice("softmax", ELLIPSIS=16384, C=4096).verdict is Verdict.FUSE  # one kernel, but a slow one
    product = advice("linear_silu", ELLIPSIS=8192, N=8192, K=8192)
    assert (product.verdict, product.bound) == (Verdict.EPILOGUE, Bound.MATRIX)
    assert product.intensity > product.ridge
    assert advice("linear_silu", ELLIPSIS=1, N=14336, K=4096).bound is Bound.BANDWIDTH
    assert advice("matmul", M=4096, N=4096, K=4096).verdict is Verdict.LEAVE
    no_unit = advice("linear_silu", "sm_75", ELLIPSIS=2048, N=4096, K=4096)
    assert no_unit.verdict is Verdict.LIBRARY
    assert "no matrix unit" in no_unit.reason


def test_exact_products_of_f32_are_the_library_s_beyond_one_row() -> None:
    """As the planner has it."""
    many = advice("linear_silu", "sm_90", "f32", ELLIPSIS=2048, N=4096, K=4096)
    assert (many.verdict, many.bound) == (Verdict.LIBRARY, Bound.INSTRUCTIONS)
    one = advice("linear_silu", "sm_90", "f32", ELLIPSIS=1, N=4096, K=4096)
    assert (one.verdict, one.bound) == (Verdict.EPILOGUE, Bound.BANDWIDTH)


def test_rates_have_sources() -> None:
    for name, rate in rates.TABLE.items():
        assert rate.source, name
        assert rate.value > 0, name
        assert not rate.unit.startswith("of ") or rate.value <= 1 or "this times" in rate.source, name


# --- settings and the command -------------------------------------------------------------------


def test_sizes_that_are_given() -> None:
    assert given_sizes(["...=4", "N = 8"]) == {"...": 4, "N": 8}
    assert given_sizes(["decode", "prefill"]) is None
    with pytest.raises(ValueError, match="labels"):
        given_sizes(["decode", "N=8"])
    assert missing(OPS["linear_silu"], {"N": 1}) == ("...", "K")


def test_each_dtype_is_a_setting() -> None:
    found = list(settings(OPS["swish"], ["...=4"], ["f16", "f32"]))
    assert [one.dtype for one in found] == ["f16", "f32"]
    assert [one.dtype for one in settings(OPS["swish"], ["...=4"], None)] == ["bf16"]


Output = pytest.CaptureFixture[str]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "pyproject.toml").write_text("[tool.opgen]\n")
    text = SPEC.split("op gelu", maxsplit=1)[0].replace(
        "  reference", "  sizes { big: ... = 134217728, small: ... = 64 }\n  reference"
    )
    (tmp_path / "swish.op").write_text(text)
    (tmp_path / "bare.op").write_text("op bare(x: T[..., N]) -> y: T[..., N] { y = x + 1 }")
    monkeypatch.chdir(tmp_path)
    return "swish.op"


def test_command(spec: str, capsys: Output) -> None:
    assert main(["advise", spec, "--target", "sm_90,gfx942"]) == 0
    out = capsys.readouterr().out
    assert out.count("swish, bf16") == 2
    assert "everywhere: fuse: a memory-bound chain" in out
    assert main(["advise", spec, "--target", "sm_90", "--sizes", "small", "--dtype", "f32", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["types"], row["verdict"], row["bytes_fused"]) == ({"T": "f32"}, "capture a graph", 512)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["swish.op", "--sizes", "bog"], "no op here has the sizes `bog`; did you mean `big`?"),
        (["swish.op", "--dtype", "f64"], "no op here has the element type `f64`"),
        (["swish.op", "--sizes", "big,N=4"], "labels of the spec, or one setting"),
        (["swish.op", "--sizes", "N=4"], "`swish` needs sizes of ...: --sizes ...=…"),
        (["bare.op"], "`bare` needs sizes of ..., N"),
    ],
)
def test_mistakes(spec: str, arguments: list[str], told: str, capsys: Output) -> None:
    assert main(["advise", *arguments]) == 1
    assert told in capsys.readouterr().err


def test_the_plot_needs_matplotlib(spec: str, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.delitem(__import__("sys").modules, "opgen.advise.plot", raising=False)
    assert main(["advise", spec, "--plot", "roof.png"]) == 1
    assert "pip install 'opgen[plot]'" in capsys.readouterr().err
    assert not Path("roof.png").exists()


def test_the_plot(spec: str, capsys: Output) -> None:
    pytest.importorskip("matplotlib")
    assert main(["advise", spec, "--target", "sm_90,sm_80", "--plot", "roof.png"]) == 0
    assert Path("roof.png").read_bytes().startswith(b"\x89PNG")
