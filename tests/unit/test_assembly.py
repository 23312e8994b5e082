"""What is read from compiled kernels: loads, products, resources; and occupancy."""

import subprocess

import pytest

from opgen.device import assembly
from opgen.device.assembly import _amd_loads, _amd_resources, _dots, _nvidia_loads
from opgen.device.occupancy import occupancy
from opgen.targets import TARGETS


@pytest.mark.parametrize(
    ("target", "warps", "registers", "shared_bytes", "share"),
    [
        ("sm_90", 4, 32, 0, 1.0),
        ("sm_90", 8, 128, 0, 0.25),
        ("sm_90", 8, 128, 116000, 0.125),
        ("sm_90", 1, 16, 0, 0.5),  # 32 blocks of a warp
        ("sm_80", 8, 32, 81920, 0.25),
        ("sm_86", 4, 32, 0, 1.0),
        ("sm_90", 32, 80, 0, 0.0),  # 81,920 registers
        ("sm_90", 4, 32, 240000, 0.0),
        ("gfx942", 4, 128, 0, 0.5),
        ("gfx942", 4, 512, 65536, 0.125),
        ("gfx1100", 4, 96, 0, 1.0),
        ("gfx1100", 4, 192, 0, 0.5),
    ],
)
def test_occupancy(target: str, warps: int, registers: int, shared_bytes: int, share: float) -> None:
    assert occupancy(TARGETS[target], warps, registers, shared_bytes) == share


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", [16]),
        ("ld.global.b16 %rs1, [ %rd1 + 0 ];", [2]),
        ("ld.global.L1::evict_last.v2.b32 { %r1, %r2 }, [ %rd1 ];", [8]),
        ("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%r1}, [ %rd1 ], %rd2;", [16]),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r5;", [16]),
        ("cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, 0x4;", [4]),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier [%r1], [%rd1];", [128]),
        ("st.global.v4.b32 [ %rd1 ], { %r1, %r2, %r3, %r4 };", []),
        ("ld.shared.v4.b32 { %r1, %r2, %r3, %r4 }, [ %r9 ];", []),
    ],
)
def test_nvidia_loads(line: str, sizes: list[int]) -> None:
    assert list(_nvidia_loads(line)) == sizes


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("global_load_dwordx4 v[6:9], v[0:1], off", [16]),
        ("global_load_dword v6, v[0:1], off", [4]),
        ("buffer_load_dwordx2 v[6:7], v0, s[0:3], 0 offen", [8]),
        ("global_load_ushort v7, v[16:17], off", [2]),
        ("global_load_b128 v[6:9], v[0:1], off", [16]),
        ("global_load_u16 v7, v[16:17], off", [2]),
        ("global_store_dwordx4 v[0:1], v[6:9], off", []),
        ("ds_read_b128 v[0:3], v4", []),
    ],
)
def test_amd_loads(line: str, sizes: list[int]) -> None:
    assert list(_amd_loads(line)) == sizes


def test_amd_resources() -> None:
    text = """
  - .agpr_count:     16
    .private_segment_fixed_size: 24
    .vgpr_count:     144
    .vgpr_spill_count: 5
"""
    assert _amd_resources(text) == (144, 24)
    assert _amd_resources(text.replace("24", "0")) == (144, 20)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "%9 = tt.dot %1, %2, %3 : tensor<128x64xbf16> * tensor<64x128xbf16> -> tensor<128x128xf32>",
            ["bf16"],
        ),
        (
            "%9 = tt.dot %1, %2, %3, inputPrecision = tf32 : tensor<64x32xf32> * tensor<32x64xf32> -> x",
            ["f32 tf32"],
        ),
        ("%9 = tt.dot %1, %2, %3 : tensor<64x32xf32> * tensor<32x64xf32> -> tensor<64x64xf32>", ["f32 ieee"]),
        (
            "%9 = tt.dot %1, %2, %3 : tensor<16x64xf8E4M3FN> * tensor<64x16xf8E4M3FN> -> tensor<16x16xf32>",
            ["f8e4m3"],
        ),
        ("%9 = tt.dot %1, %2, %3 : tensor<1x16x64xi8> * tensor<1x64x16xi8> -> tensor<1x16x16xi32>", ["i8"]),
        ("%9 = arith.addf %1, %2 : tensor<128x64xbf16>", []),
    ],
)
def test_dots(line: str, found: list[str]) -> None:
    assert list(_dots(line)) == found


def test_resources_of_a_cubin_that_is_none() -> None:
    with pytest.raises((ValueError, OSError, subprocess.CalledProcessError)):
        assembly._nvidia_resources(b"no cubin")
