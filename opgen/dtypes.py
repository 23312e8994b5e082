"""The closed set of element types and their facts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    FLOAT = "float"
    INTEGER = "integer"
    BOOL = "bool"


@dataclass(frozen=True)
class DType:
    """An element type.

    `bits` is its size in memory; `compute` names the type in which it is computed (LANGUAGE.md, section 5);
    `torch` and `triton` are its names there, where a packed type has the name of the bytes that hold it.
    `significand` counts the bits of a float's significand, the hidden one included, and `largest` is its largest
    finite value; integers have their range in `lowest` and `largest`.
    """

    name: str
    kind: Kind
    bits: int
    compute: str
    torch: str
    triton: str
    significand: int = 0
    lowest: float = 0
    largest: float = 0

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind is Kind.INTEGER

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    @property
    def is_packed(self) -> bool:
        """Whether two elements share a byte."""
        return self.bits < 8

    @property
    def is_compute(self) -> bool:
        """Whether values are computed in this very type."""
        return self.compute == self.name

    @property
    def compute_triton(self) -> str:
        """Triton's name of the compute type."""
        return DTYPES[self.compute].triton

    @property
    def compute_torch(self) -> str:
        """PyTorch's name of the compute type."""
        return DTYPES[self.compute].torch

    def __str__(self) -> str:
        return self.name


def _float(
    name: str, bits: int, compute: str, torch: str, triton: str, significand: int, largest: float
) -> DType:
    return DType(name, Kind.FLOAT, bits, compute, torch, triton, significand, -largest, largest)


def _integer(name: str, bits: int, compute: str, torch: str, triton: str, *, signed: bool = True) -> DType:
    lowest, largest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return DType(name, Kind.INTEGER, bits, compute, torch, triton, 0, lowest, largest)


F64 = _float("f64", 64, "f64", "float64", "float64", 53, 1.7976931348623157e308)
F32 = _float("f32", 32, "f32", "float32", "float32", 24, 3.4028234663852886e38)
F16 = _float("f16", 16, "f32", "float16", "float16", 11, 65504.0)
BF16 = _float("bf16", 16, "f32", "bfloat16", "bfloat16", 8, 3.3895313892515355e38)
F8E4M3 = _float("f8e4m3", 8, "f32", "float8_e4m3fn", "float8e4nv", 4, 448.0)
F8E5M2 = _float("f8e5m2", 8, "f32", "float8_e5m2", "float8e5", 3, 57344.0)
I64 = _integer("i64", 64, "i64", "int64", "int64")
I32 = _integer("i32", 32, "i32", "int32", "int32")
I16 = _integer("i16", 16, "i32", "int16", "int16")
I8 = _integer("i8", 8, "i32", "int8", "int8")
U8 = _integer("u8", 8, "i32", "uint8", "uint8", signed=False)
I4 = _integer("i4", 4, "i32", "uint8", "uint8")
U4 = _integer("u4", 4, "i32", "uint8", "uint8", signed=False)
BOOL = DType("bool", Kind.BOOL, 8, "bool", "bool", "int1", 0, 0, 1)

DTYPES: dict[str, DType] = {
    dtype.name: dtype for dtype in (F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, I4, U4, BOOL)
}

#: What `T` stands for where a spec does not declare it.
DEFAULT_VARIABLE = (F16, BF16, F32)
