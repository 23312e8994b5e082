"""Names: whatever a user calls things, also what generated code, Python, PyTorch or Triton would like for itself."""

import importlib
from pathlib import Path

import pytest
import torch

from opgen.diagnostics import SpecError
from tests.behaviour.building import build_package

NAMES = (
    "grid num_warps tl torch triton rt mask pid self cls at rows cols out_ exp sigmoid tile step inside offsets scalar "
    "neg div floor pow x_ptr y_at n1 RANK UNIT BLOCK print sum max id input type list _ENTRY _OPERATOR reference bound "
    "device match case sizes require grad test fn op use inout const via launch x_s0 x_layout x_s0_ index_M index_M_s0 "
    "position0 inside0 t0 value program numel index where min float int entry eager size_M x_base seed_low none é ß"
).split()


#: What kernels of products and their launchers call things, as well.
PRODUCT_NAMES = (
    "batch m n k_left part place first last start tiles late both half m_ok n_size n0 b1 M_UNIT FORM SPLIT EVEN left "
    "right x_tile x_desc product kernel arguments stage range partial spanning descriptors x_m y_n0 along_m "
    "partial_sum launch via"
).split()


OPS = (
    "grid num_warps tl torch triton rt mask self tile reference bound device match print sum x y exp op _ENTRY "
    "_OPERATOR _operator name _dir default no_gradient é ß"
).split()


def test_every_name_in_every_role(tmp_path: Path, device: torch.device) -> None:
    """Tensors, numbers, dims, results and values, of which each op takes two: in steps of two, each name is each."""
    starts = range(0, len(NAMES), 2)
    windows = [(NAMES + NAMES)[start : start + 10] for start in starts]
    text = "\n".join(
        f"op f{number}(inout {a}: f32[{m}, {n}], {b}: f32[{n}], {s}: f32, {t}: i64 = 3) ->\n"
        f"({y}: f32[{n}, {m}], {z}: f32[{m}]) {{\n"
        f"  {v} = {a} * {s} + index[{m}] + {b}[{n}: 1] {w} = {v} + {t}\n"
        f"  {y} = {w} * {n} {z} = index[{m}] * {s} {a} = {w} }}"
        for number, (a, b, s, t, m, n, y, z, v, w) in enumerate(windows)
    )
    package = build_package(text, tmp_path)
    rows = torch.tensor([[0.0], [1.0]], device=device)
    for number, (first, second, scalar, *_) in enumerate(windows):
        x = torch.arange(6.0, device=device).view(3, 2).t()
        expected = x * 0.5 + rows + 7.0 + 3.0
        inputs = {first: x, second: torch.tensor([5.0, 7.0, 9.0], device=device), scalar: 0.5}
        y, z = getattr(package, f"f{number}")(**inputs)
        assert torch.equal(y, expected.t() * 3), windows[number]
        assert torch.equal(x, expected), windows[number]
        assert z.tolist() == [0.0, 0.5], windows[number]


def test_names_of_products_and_rows(tmp_path: Path, device: torch.device) -> None:
    """A product and a sum over its columns, by tiles, in pieces, through descriptors and by the vendor's product."""
    starts = range(0, len(PRODUCT_NAMES), 4)
    windows = [(PRODUCT_NAMES + PRODUCT_NAMES)[start : start + 9] for start in starts]
    text = "\n".join(
        f"op f{number}({a}: f32[{m}, {k}], {b}: f32[{n}, {k}], {s}: f32 = 2) ->\n"
        f"({y}: f32[{m}, {n}], {z}: f32[{m}]) {{\n  {v} = {a} @ {b} {y} = {v} * {s} + index[{n}] {z} = sum[{n}]({v}) }}"
        for number, (a, b, s, m, n, k, y, z, v) in enumerate(windows)
    )
    package = build_package(text, tmp_path)
    for number, (first, second, scalar, *_) in enumerate(windows):
        module = importlib.import_module(f"{package.__name__}.f{number}")
        x, w = torch.arange(6.0, device=device).view(2, 3), torch.arange(12.0, device=device).view(4, 3)
        further = ({}, {"split": 2}, {"strategy": "descriptors"}, {"strategy": "library"})[number % 4]
        config = module.rt.ProductConfig((16, 16, 16), 4, 2, **further)
        y, z = module._ENTRY.run({first: x, second: w, scalar: 0.5}, config=(config, None))
        assert torch.equal(y, (x @ w.T) * 0.5 + torch.arange(4.0, device=device)), windows[number]
        assert torch.equal(z, (x @ w.T).sum(1)), windows[number]


def test_ops(tmp_path: Path, device: torch.device) -> None:
    """Names of ops, also under autograd, where PyTorch finds an operator by its name."""
    package = build_package(
        "\n".join(f"op {name}(x: f32[M]) -> y: f32[M] {{ y = exp(x) }}" for name in OPS), tmp_path
    )
    x = torch.zeros(2, device=device, requires_grad=True)
    for name in OPS:
        got = getattr(package, name)(x)
        assert got.tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match=f"{name}: this op has no backward"):
            got.sum().backward()


@pytest.mark.parametrize("name", ["__class__", "__dict__", "__init__", "__", "_runtime", "tests"])
def test_ops_that_a_module_cannot_have(name: str, tmp_path: Path) -> None:
    """Names under which Python, or the package, keeps something of its own."""
    with pytest.raises(SpecError, match=f"OPG801.*an op cannot be named `{name}`"):
        build_package(f"op {name}(x: f32[M]) -> y: f32[M] {{ y = exp(x) }}", tmp_path)


@pytest.mark.parametrize(
    "names", ["torch tl rt mask at", "x_ptr WIDE z_at scalar_ device", "bound y_layout index_M round_to é"]
)
def test_type_variables(names: str, tmp_path: Path, device: torch.device) -> None:
    text = "\n".join(
        f"op f{number}(x: {name}[M], z: f32[M]) -> y: {name}[M] for {name} in {{f16, f32}} {{\n"
        f"  h: {name} = x * z y = h + index[M] + x[M: 0] }}"
        for number, name in enumerate(names.split())
    )
    package = build_package(text, tmp_path)
    for number in range(len(names.split())):
        for dtype in (torch.float16, torch.float32):
            x = torch.tensor([2.0, 3.0], device=device, dtype=dtype)
            got = getattr(package, f"f{number}")(x, torch.tensor([0.5, 4.0], device=device))
            assert (got.dtype, got.tolist()) == (dtype, [3.0, 15.0])


def test_names_that_share_their_beginning(tmp_path: Path, device: torch.device) -> None:
    """What a kernel derives from one name is another name of the spec."""
    text = """
    op ats(a_at_b: f32[M, N], a_b: f32[N]) -> y: f32[M, N] { y = a_at_b * a_b }
    op bases(x: f32[M, N], x_base: f32[N], i: i32[N]) -> y: f32[M, N] { y = x[N: i] * x_base + x }
    op lows(q: i64, q_low: f32[M], size_M: f32[M], size_M_unit: f32) -> y: f32[M] {
      y = q * q_low + size_M * M * size_M_unit
    }
    op dims(x: f32[A_B, A, B]) -> y: f32[A_B, A, B] { y = x * index[A_B] + rand[A, B](1) * 0 }
    """
    package = build_package(text, tmp_path)
    x = torch.arange(6.0, device=device).view(2, 3)
    row = torch.tensor([2.0, 3.0, 4.0], device=device)
    turned = torch.tensor([2, 0, 1], dtype=torch.int32, device=device)
    assert torch.equal(package.ats(x, row), x * row)
    assert torch.equal(package.bases(x, row, turned), x[:, turned.long()] * row + x)
    assert torch.equal(package.lows(2**20, row, row, 0.5), row * 2**20 + row * 1.5)
    assert torch.equal(
        package.dims(x.view(2, 1, 3)), x.view(2, 1, 3) * torch.tensor([[[0.0]], [[1.0]]], device=device)
    )
