"""An op as one of its variants sees it."""

from __future__ import annotations

from dataclasses import replace

from opgen.dtypes import DType
from opgen.ir.nodes import Element, Op, TensorParam

#: Types that one kernel serves: it reads them as f32 and rounds its results to the pointer's type.
_SHARED = frozenset({"f16", "bf16", "f32"})


def specialised(op: Op, variant: int) -> Op:
    """The op with the types of a variant's first choice in its parameters and results."""
    types = dict(
        zip((variable.name for variable in op.variables), op.variants[variant].choices[0], strict=True)
    )

    def chosen(element: Element) -> Element:
        return element if element.variable is None else Element(types[element.variable], element.variable)

    params = tuple(
        replace(param, element=chosen(param.element)) if isinstance(param, TensorParam) else param
        for param in op.params
    )
    results = tuple(replace(result, element=chosen(result.element)) for result in op.results)
    return replace(op, params=params, results=results)


def is_generic(element: Element) -> bool:
    """Whether the code must take the element type from a tensor, because several types share it."""
    return element.variable is not None and element.dtype.name in _SHARED


def is_loaded_as_computed(element: Element) -> bool:
    """Whether a loaded element has its compute type already."""
    return element.dtype.is_compute and not is_generic(element)


def is_f8(dtype: DType) -> bool:
    """Whether kernels see a type as its bytes, which they decode and encode: not all targets have it."""
    return dtype.name.startswith("f8")
