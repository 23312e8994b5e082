"""Declared operators, and what a call of one binds: sizes, types and device, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i4": torch.uint8,
    "u4": torch.uint8,
    "bool": torch.bool,
}
#: Attributes of PyTorch's namespaces, which no operator may have as its name there; nor may it leave ASCII.
_TAKEN = frozenset({*dir(torch._ops._OpNamespace("")), *dir(torch._ops._OpNamespace)})
_INTEGER_RANGES = {"i64": 2**63, "i32": 2**31, "i16": 2**15, "i8": 2**7}


@dataclass(frozen=True)
class Dim:
    """`NAME`, `NAME * times`, `NAME / over`, a fixed size (digits as the name) or `...`."""

    text: str
    name: str
    times: int
    over: int

    def size(self, named: int) -> int:
        """Its size where `NAME` has `named` elements."""
        return named * self.times // self.over


def dim(text: str) -> Dim:
    """The dim that a declaration's text stands for."""
    whole, _, over = text.partition(" / ")
    name, _, times = whole.partition(" * ")
    return Dim(text, name, int(times or 1), int(over or 1))


@dataclass(frozen=True)
class Tensor:
    """A declared tensor: `element` is a type or a type variable; packed types store two along the last dim.

    `across` says that kernels read it elsewhere than where they write, so that they read a copy of a tensor that is
    written as well; `contiguous` that a new result is, whatever the layout of the inputs.
    """

    name: str
    element: str
    dims: tuple[str, ...]
    optional: bool = False
    written: bool = False
    across: bool = False
    contiguous: bool = False
    parsed: tuple[Dim, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parsed", tuple(dim(text) for text in self.dims))

    @property
    def has_ellipsis(self) -> bool:
        return bool(self.dims) and self.dims[0] == "..."

    @property
    def packed(self) -> bool:
        return self.element in ("i4", "u4")


@dataclass(frozen=True)
class Scalar:
    """A declared scalar: a number at run time, or a compile-time one (`const`)."""

    name: str
    type: str
    const: bool = False

    @property
    def placeholder(self) -> float | bool | int:
        """A number of the declared type, for where a tensor stands for the scalar."""
        return 0.0 if self.type.startswith(("f", "bf")) else False if self.type == "bool" else 0


@dataclass(frozen=True)
class Requirement:
    """A condition over sizes and consts, and what to say where it is false."""

    text: str
    why: str | None
    holds: Callable[[Mapping[str, int]], bool]


@dataclass(frozen=True)
class Nonempty:
    """A reduction without a value over nothing, and the dims that must have an element unless its result has none."""

    reduction: str
    dims: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class Operator:
    """What an op declares about its arguments; `variables` maps a type variable to its types.

    `registered` is its name among PyTorch's operators.
    """

    name: str
    inputs: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...] = ()
    variables: Mapping[str, tuple[torch.dtype, ...]] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    nonempty: tuple[Nonempty, ...] = ()
    registered: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = self.name.encode("ascii", "backslashreplace").decode().replace("\\", "_")
        free = name == self.name and name not in _TAKEN
        object.__setattr__(self, "registered", name if free else f"op_{name}")

    def types(self, tensor: Tensor) -> tuple[torch.dtype, ...]:
        """The element types that a tensor may have."""
        return self.variables.get(tensor.element) or (DTYPES[tensor.element],)


@dataclass(frozen=True)
class Bound:
    """A checked call: the size of each named dim, the broadcast leading sizes, the types and the device."""

    sizes: Mapping[str, int]
    ellipsis: tuple[int, ...]
    types: Mapping[str, torch.dtype]
    device: torch.device

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The full shape of a declared tensor in its stored elements (bytes for packed types)."""
        return self.extents(tensor.parsed, packed=tensor.packed)

    def named(self, one: Dim) -> int:
        """The size of what a dim names; a fixed size is known where no tensor has it, too."""
        return int(one.name) if one.name.isdigit() else self.sizes[one.name]

    def extents(self, dims: Sequence[Dim], *, packed: bool = False) -> tuple[int, ...]:
        """The sizes of dims, those of `...` spread out; a packed last dim has half its elements."""
        result: list[int] = []
        for one in dims:
            result += self.ellipsis if one.name == "..." else (one.size(self.named(one)),)
        if packed:
            result[-1] //= 2
        return tuple(result)

    def dtype(self, tensor: Tensor) -> torch.dtype:
        """The element type of a declared tensor in this call."""
        return self.types.get(tensor.element) or DTYPES[tensor.element]


def bind(
    op: Operator, tensors: Sequence[torch.Tensor | None], consts: Mapping[str, int | float] | None = None
) -> Bound:
    """Checks the tensors of a call against the declaration.

    Raises `TypeError` for what is no tensor or has another element type, `ValueError` for devices, ranks, sizes,
    requirements, and reductions over nothing that have no value; each message names the op, the parameter, what was given and what is accepted.
    """
    given = [(spec, tensor) for spec, tensor in zip(op.inputs, tensors) if not _left_out(op, spec, tensor)]
    types = _bind_types(op, given)
    device = _bind_device(op, given)
    sizes = _bind_sizes(op, given)
    ellipsis = _bind_ellipsis(op, given)
    bound = Bound(sizes, ellipsis, types, device)
    for spec, tensor in given:
        if spec.written and tuple(tensor.shape) != bound.shape(spec):
            raise ValueError(
                f"{op.name}: `{spec.name}` is updated in place and needs the full shape {bound.shape(spec)}, "
                f"but has {tuple(tensor.shape)}"
            )
    _check_requirements(op, sizes, consts or {})
    _check_nonempty(op, bound)
    return bound


def check_outputs(op: Operator, bound: Bound, outputs: Sequence[torch.Tensor]) -> None:
    """Checks `out=` tensors against a bound call: type, element type, device and shape."""
    for spec, tensor in zip(op.results, outputs):
        _check_tensor(op, f"out ({spec.name})", tensor)
        if tensor.dtype != bound.dtype(spec):
            raise TypeError(f"{op.name}: `out` for {spec.name} has {tensor.dtype}, but {bound.dtype(spec)} is needed")
        if tensor.device != bound.device:
            raise ValueError(f"{op.name}: `out` for {spec.name} is on {tensor.device}, but the inputs on {bound.device}")
        if tuple(tensor.shape) != bound.shape(spec):
            raise ValueError(
                f"{op.name}: `out` for {spec.name} has shape {tuple(tensor.shape)}, but {bound.shape(spec)} is needed"
            )


def bind_scalar(
    op: Operator, spec: Scalar, value: object, device: torch.device
) -> int | float | bool | torch.Tensor:
    """A scalar argument as a Python number, or as a 0-d tensor on the op's device, which is not read here.

    Raises `TypeError` for anything else and for a fraction or a float where an integer is declared, and `ValueError`
    for an integer out of range.
    """
    if isinstance(value, torch.Tensor):
        return _bind_scalar_tensor(op, spec, value, device)
    if not isinstance(value, int | float) and hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a NumPy scalar
    is_float = spec.type.startswith(("f", "bf"))
    accepted = int | float if is_float else int
    if not isinstance(value, accepted):
        kind = "a number" if is_float else "a bool" if spec.type == "bool" else "an integer"
        raise TypeError(
            f"{op.name}: `{spec.name}` must be {kind} or a 0-d tensor ({spec.type}), but is {_describe(value)}"
        )
    if is_float:
        return float(value)
    if spec.type == "bool":
        return bool(value)
    limit = _INTEGER_RANGES.get(spec.type, 0)
    low, high = (-limit, limit) if limit else (0, 256)
    if not low <= value < high:
        raise ValueError(f"{op.name}: `{spec.name}` is {value}, out of the range of {spec.type}")
    return int(value)


def _bind_scalar_tensor(
    op: Operator, spec: Scalar, value: torch.Tensor, device: torch.device
) -> int | float | bool | torch.Tensor:
    if value.dim() != 0:
        raise TypeError(f"{op.name}: `{spec.name}` must be a number or a 0-d tensor, but has shape {tuple(value.shape)}")
    if value.is_complex() or (value.is_floating_point() and not spec.type.startswith(("f", "bf"))):
        raise TypeError(f"{op.name}: `{spec.name}` ({spec.type}) cannot be a tensor of {value.dtype}")
    if spec.const:
        raise TypeError(f"{op.name}: `{spec.name}` is a compile-time constant and must be a Python number")
    if value.device == device:
        return value
    if value.device.type != "cpu":
        raise ValueError(f"{op.name}: `{spec.name}` is on {value.device}, but the tensors are on {device}")
    return value.to(device) if torch.compiler.is_compiling() else value.item()


def _left_out(op: Operator, spec: Tensor, tensor: object) -> bool:
    if tensor is None and spec.optional:
        return True
    _check_tensor(op, spec.name, tensor)
    return False


def _check_tensor(op: Operator, name: str, tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{op.name}: `{name}` must be a torch.Tensor, but is {_describe(tensor)}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{op.name}: `{name}` must be a strided tensor, but has layout {tensor.layout}")


def _describe(value: object) -> str:
    return "None" if value is None else f"{value!r} ({type(value).__name__})"


def _bind_types(op: Operator, given: Sequence[tuple[Tensor, torch.Tensor]]) -> dict[str, torch.dtype]:
    types: dict[str, torch.dtype] = {}
    owner: dict[str, str] = {}
    for spec, tensor in given:
        accepted = op.types(spec)
        if tensor.dtype not in accepted:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in accepted)
            raise TypeError(f"{op.name}: `{spec.name}` has {tensor.dtype}, but accepts {names}")
        if spec.element in op.variables:
            known = types.setdefault(spec.element, tensor.dtype)
            first = owner.setdefault(spec.element, spec.name)
            if known != tensor.dtype:
                raise TypeError(
                    f"{op.name}: `{spec.name}` has {tensor.dtype}, but `{first}` has {known}: "
                    f"both are of type {spec.element}"
                )
    return types


def _bind_device(op: Operator, given: Sequence[tuple[Tensor, torch.Tensor]]) -> torch.device:
    first_spec, first = given[0]
    for spec, tensor in given[1:]:
        if tensor.device != first.device:
            raise ValueError(
                f"{op.name}: `{spec.name}` is on {tensor.device}, but `{first_spec.name}` is on {first.device}; "
                "all tensors must be on one device"
            )
    return first.device


def _bind_sizes(op: Operator, given: Sequence[tuple[Tensor, torch.Tensor]]) -> dict[str, int]:
    """The size of each name: from dims that are just the name first, then from multiples and fractions of it."""
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    found = [(one, spec, size) for spec, tensor in given for one, size in _named_sizes(op, spec, tensor)]
    for one, spec, size in sorted(found, key=lambda item: item[0].times != 1 or item[0].over != 1):
        if one.name.isdigit():
            if size != int(one.name):
                raise ValueError(f"{op.name}: a dim of `{spec.name}` is {size}, but must be {one.name}")
            continue
        if one.name not in sizes:
            if size % one.times:
                raise ValueError(f"{op.name}: dim {one.text} of `{spec.name}` is {size}, no multiple of {one.times}")
            sizes[one.name] = size * one.over // one.times
            owner[one.name] = spec.name
        named = sizes[one.name]
        if (named * one.times) % one.over:
            raise ValueError(
                f"{op.name}: dim {one.name} is {named} in `{owner[one.name]}`, but `{spec.name}` needs a multiple "
                f"of {one.over} (its dim {one.text})"
            )
        if one.size(named) != size:
            needed = "" if one.text == one.name else f", so {one.text} is {one.size(named)}"
            raise ValueError(
                f"{op.name}: dim {one.name} is {named} in `{owner[one.name]}`{needed}, but {size} in `{spec.name}`"
            )
    return sizes


def _named_sizes(op: Operator, spec: Tensor, tensor: torch.Tensor) -> list[tuple[Dim, int]]:
    """The dims of a tensor beside `...`, each with its size in elements."""
    dims = spec.parsed[1:] if spec.has_ellipsis else spec.parsed
    shape = tuple(tensor.shape)
    if len(shape) < len(dims) or (len(shape) > len(dims) and not spec.has_ellipsis):
        kind = f"at least {len(dims)}" if spec.has_ellipsis else str(len(dims))
        raise ValueError(
            f"{op.name}: `{spec.name}` needs {kind} dims [{', '.join(spec.dims)}], but has shape {shape}"
        )
    sizes = list(shape[len(shape) - len(dims) :])
    if spec.packed:
        sizes[-1] *= 2
    return list(zip(dims, sizes))


def _bind_ellipsis(op: Operator, given: Sequence[tuple[Tensor, torch.Tensor]]) -> tuple[int, ...]:
    """The leading sizes of all tensors with `...`, broadcast together from the right."""
    result: list[int] = []  # innermost first
    owner: list[str] = []
    for spec, tensor in given:
        if not spec.has_ellipsis:
            continue
        leading = tuple(tensor.shape)[: tensor.dim() - (len(spec.dims) - 1)]
        for place, size in enumerate(reversed(leading)):
            if place == len(result):
                result.append(size)
                owner.append(spec.name)
            elif result[place] == 1:
                result[place] = size
                owner[place] = spec.name
            elif size != 1 and size != result[place]:
                raise ValueError(
                    f"{op.name}: the leading dims of `{owner[place]}` and `{spec.name}` do not broadcast: "
                    f"{result[place]} against {size} in {tuple(tensor.shape)}"
                )
    return tuple(reversed(result))


def _check_requirements(op: Operator, sizes: Mapping[str, int], consts: Mapping[str, int | float]) -> None:
    names = {**sizes, **consts}
    for requirement in op.requirements:
        if not requirement.holds(names):
            why = f": {requirement.why}" if requirement.why else ""
            given = ", ".join(f"{name} = {value}" for name, value in sorted(names.items()) if name in requirement.text)
            raise ValueError(f"{op.name}: {requirement.text} does not hold{why} ({given})")


def _check_nonempty(op: Operator, bound: Bound) -> None:
    for one in op.nonempty:
        shape = next(bound.shape(spec) for spec in (*op.results, *op.inputs) if spec.name == one.result)
        for text in one.dims:
            if 0 in bound.extents([dim(text)]) and 0 not in shape:
                raise ValueError(f"{op.name}: `{one.reduction}` over {text} has no value, because {text} is 0")
