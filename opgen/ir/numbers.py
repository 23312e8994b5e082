"""Exact numbers: the literals of a spec, what they round to, and whether they fit a type.

A number is a fraction, or a float that no fraction is (`inf`, `-inf`, `nan`, `-0.0`). `Exact` adds the kind that it
was written as: `2` is an integer, `2.0` a float, `true` a bool.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from opgen.dtypes import F32, F64, I32, I64, DType, Kind
from opgen.ir.decimals import PI
from opgen.ir.nodes import Number

#: Larger exact intermediates are refused: they would only be slow.
LARGEST_BITS = 1 << 16
_LARGEST_EXPONENT = 10000
_EXPONENT = re.compile(r"[eE]([+-]?[\d_]+)$")

_SMALLEST_EXPONENT = {"f64": -1074, "f32": -149, "f16": -24, "bf16": -133, "f8e4m3": -9, "f8e5m2": -16}


class FoldError(Exception):
    """An expression of literals that has no value: the sentence to show, and what might help."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True)
class Exact:
    """A literal's number and the kind that it was written as."""

    number: Number
    kind: Kind

    @property
    def value(self) -> Fraction | float:
        return self.number.value


def exact(value: Fraction | float, kind: Kind) -> Exact:
    """An `Exact`; a finite float other than -0.0 becomes a fraction. Raises `FoldError` past `LARGEST_BITS`."""
    if isinstance(value, float):
        special = not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0)
        value = value if special else Fraction(value)
    else:
        value = Fraction(value)
    if (
        isinstance(value, Fraction)
        and (value.numerator.bit_length() + value.denominator.bit_length()) > LARGEST_BITS
    ):
        raise FoldError("this expression of literals is too large to fold exactly")
    return Exact(Number(value), kind)


def parse_number(text: str) -> Exact:
    """The number of a literal as written (`1`, `1e-5`, `0x1f`). Raises `FoldError` for exponents out of all range."""
    if text[:2].lower() in ("0x", "0o", "0b"):
        return exact(int(text, 0), Kind.INTEGER)
    if text.replace("_", "").isdigit():
        if len(text) > _LARGEST_EXPONENT:
            raise FoldError("this literal is too large")
        return exact(_decimal_integer(text.replace("_", "")), Kind.INTEGER)
    exponent = _EXPONENT.search(text)
    if exponent is not None and abs(int(exponent.group(1)[:12])) > _LARGEST_EXPONENT:
        if Fraction(text[: exponent.start()].replace("_", "").rstrip(".")) == 0 or exponent.group(
            1
        ).startswith("-"):
            return exact(0, Kind.FLOAT)
        raise FoldError("this literal is too large for every type")
    return exact(Fraction(_padded(text.replace("_", ""))), Kind.FLOAT)


def _decimal_integer(digits: str) -> int:
    """`int(digits)` past Python's limit on the digits of a conversion."""
    value = 0
    for start in range(0, len(digits), 1000):
        part = digits[start : start + 1000]
        value = value * 10 ** len(part) + int(part)
    return value


def _padded(text: str) -> str:
    """`1.` and `.5`, with the digits that `Fraction` asks for."""
    mantissa, mark, exponent = text.lower().partition("e")
    whole, point, part = mantissa.partition(".")
    return f"{whole or '0'}{point}{part or ('0' if point else '')}{mark}{exponent}"


def constant(text: str) -> Exact:
    """`true`, `false`, `inf`, `nan` or `pi`."""
    values: dict[str, Exact] = {
        "true": exact(1, Kind.BOOL),
        "false": exact(0, Kind.BOOL),
        "inf": exact(math.inf, Kind.FLOAT),
        "nan": exact(math.nan, Kind.FLOAT),
        "pi": exact(PI, Kind.FLOAT),
    }
    return values[text]


def sign_is_negative(value: Fraction | float) -> bool:
    """Whether the sign bit of the number is set (-0.0 included)."""
    return value < 0 or (isinstance(value, float) and value == 0)


def round_to_float(value: Fraction | float, dtype: DType) -> Fraction | float:
    """The number rounded once to a float type, to nearest even; past the largest value it is ±inf (f8e4m3: ±448)."""
    if isinstance(value, float):
        return math.copysign(448.0, value) if dtype.name == "f8e4m3" and math.isinf(value) else value
    if value == 0:
        return value
    exponent = _floor_log2(abs(value)) - dtype.significand + 1
    unit = Fraction(2) ** max(exponent, _SMALLEST_EXPONENT[dtype.name])
    rounded = round(value / unit) * unit
    if rounded == 0:
        return -0.0 if value < 0 else rounded
    if abs(rounded) <= Fraction(dtype.largest):
        return rounded
    if dtype.name == "f8e4m3":
        return Fraction(448) if value > 0 else Fraction(-448)
    return math.inf if value > 0 else -math.inf


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def cast(value: Fraction | float, dtype: DType) -> Fraction | float:
    """The number cast to a type by the rules of LANGUAGE.md, section 5; integers saturate when a float is cast."""
    if dtype.is_float:
        return round_to_float(value, dtype)
    if dtype.is_bool:
        return Fraction(0 if value == 0 else 1)
    if isinstance(value, float):
        if math.isinf(value):
            return Fraction(int(dtype.largest if value > 0 else dtype.lowest))
        return Fraction(0)
    return Fraction(min(max(math.trunc(value), int(dtype.lowest)), int(dtype.largest)))


def integer_type(value: Fraction | float) -> DType | None:
    """The type of an integer literal that meets nothing wider: i32, else i64, else None."""
    for dtype in (I32, I64):
        if dtype.lowest <= value <= dtype.largest:
            return dtype
    return None


def fits(value: Fraction | float, dtype: DType) -> bool:
    """Whether a number can be a literal of a type: finite floats must not round to ±inf, integers be in range."""
    if dtype.is_bool:
        return value in (0, 1)
    if isinstance(value, float):
        return dtype.is_float
    if dtype.is_float:
        rounding = round_to_float(value, dtype)
        saturated = (
            dtype.name == "f8e4m3" and abs(value) > 464
        )  # 464 is the tie above 448, which rounds to even
        return not saturated and not (isinstance(rounding, float) and math.isinf(rounding))
    return value.denominator == 1 and int(dtype.lowest) <= value <= int(dtype.largest)


def compute_float(dtype: DType) -> DType:
    """The float type that a number is computed in on its way to a type: f64 for f64, else f32."""
    return F64 if dtype is F64 else F32
