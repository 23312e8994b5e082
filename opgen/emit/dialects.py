"""The two languages of a generated module: Triton for kernels, eager PyTorch for the reference.

In both, every value is held in its compute type: a storage type shows only where values are loaded, rounded by a
cast, and stored.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from opgen.dtypes import DType
from opgen.emit.exprs import ATOM, UNARY, Dialect, Text
from opgen.emit.names import type_name
from opgen.emit.variants import is_generic
from opgen.ir.nodes import Element, Number


def number_text(number: Number, dtype: DType) -> Text:
    """A number as a Python literal of a type's kind."""
    value = number.value
    if dtype.is_bool:
        return Text(str(bool(value)))
    if isinstance(value, Fraction) and dtype.is_integer:
        return Text(str(int(value)), UNARY if value < 0 else ATOM)
    plain = as_float(number)
    if math.isnan(plain):
        return Text('float("nan")')
    if math.isinf(plain):
        return Text('float("inf")') if plain > 0 else Text('-float("inf")', UNARY)
    return Text(repr(plain), UNARY if math.copysign(1, plain) < 0 else ATOM)


def as_float(number: Number) -> float:
    """A number as the nearest double; infinite where it is out of their range."""
    if isinstance(number.value, float):
        return number.value
    try:
        return float(number.value)
    except OverflowError:
        return math.copysign(math.inf, number.value)


def _fits_f32(value: float) -> bool:
    """Whether a double is exactly an f32, as which Triton holds a lone number."""
    try:
        return not math.isfinite(value) or struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        return False


# --- Triton -------------------------------------------------------------------------------------


def _triton_literal(number: Number, dtype: DType, typed: bool) -> Text:
    plain = number_text(number, dtype)
    if plain.code == "-0.0":  # Triton makes every constant that equals zero the positive one
        return Text(f"neg(tl.full([], 0.0, tl.{dtype.triton}))")
    exact = dtype.name != "f64" or _fits_f32(as_float(number))
    if typed and exact:
        return plain
    return Text(f"tl.full([], {plain.code}, tl.{dtype.triton})")


def _triton_convert(text: Text, source: DType, target: DType) -> Text:
    if source.compute == target.name:
        return text
    return Text(f"{text.within(ATOM)}.to(tl.{target.triton})")


def _triton_cast(text: Text, source: DType, element: Element) -> Text:
    target = element.dtype
    if target.is_bool:
        return text if source.is_bool else Text(f"{text.within(1)} != 0", 0)
    if target.is_float:
        name = type_name(element.variable) if is_generic(element) else f"tl.{target.triton}"
        value = text if source.is_float else Text(f"{text.within(ATOM)}.to(tl.{target.compute_triton})")
        return Text(f"round_to({value.code}, {name})")
    if source.is_float:
        rounded = Text(f"to_int({text.code}, tl.{target.triton})")
    else:
        rounded = Text(f"{text.within(ATOM)}.to(tl.{target.triton})")
    return rounded if target.is_compute else Text(f"{rounded.code}.to(tl.{target.compute_triton})")


def _triton_lone_condition(text: Text) -> Text:
    """As a choice: the interpreter forgets that a comparison of scalars is a bool, and broadcasts it as a number."""
    return Text(f"tl.where({text.code}, True, False)")


TRITON = Dialect(
    spelling=lambda primitive: primitive.triton,
    literal=_triton_literal,
    convert=_triton_convert,
    cast=_triton_cast,
    lone_condition=_triton_lone_condition,
    takes_numbers=frozenset({"tl.where", "minimum", "maximum", "clamp"}),
    of_naturals={"floordiv": "//", "mod": "%"},
)


# --- PyTorch ------------------------------------------------------------------------------------


def _torch_literal(number: Number, dtype: DType, typed: bool) -> Text:
    plain = number_text(number, dtype)
    return plain if typed else Text(f"rt.eager.scalar({plain.code}, torch.{dtype.torch}, device)")


def _torch_convert(text: Text, source: DType, target: DType) -> Text:
    if source.compute == target.name:
        return text
    return Text(f"{text.within(ATOM)}.to(torch.{target.torch})")


def _torch_cast(text: Text, _source: DType, element: Element) -> Text:
    target = element.dtype
    name = type_name(element.variable) or f"torch.{target.torch}"
    rounded = f"rt.eager.cast({text.code}, {name})"
    if target.is_compute and not element.variable:
        return Text(rounded)
    return Text(f"{rounded}.to(torch.{target.compute_torch})")


TORCH = Dialect(
    spelling=lambda primitive: primitive.torch,
    literal=_torch_literal,
    convert=_torch_convert,
    cast=_torch_cast,
    takes_numbers=frozenset({"rt.eager.minimum", "rt.eager.maximum", "rt.eager.clamp"}),
)
