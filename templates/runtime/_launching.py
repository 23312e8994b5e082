"""The arithmetic of a launch: what a checked call allocates, which kernels it runs, and with which config."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from ._binding import Bound, Operator, Tensor, bind
from ._elementwise import Config, Launch, Walk, plan, result_strides

#: Whether kernels run in Triton's interpreter, on CPU tensors.
INTERPRETED: bool = triton.knobs.runtime.interpret

REMEMBERED_CALLS = 4096
_MISSING = object()

Arguments = Mapping[str, Any]
Tensors = Mapping[str, "torch.Tensor | None"]


@dataclass(frozen=True)
class Kernel:
    """One launch: its walk, its launcher, and its configs by target and bytes of the widest element."""

    walk: Walk
    launch: Callable[..., None]
    configs: Mapping[str, Mapping[int, Config]]


@dataclass(frozen=True)
class Variant:
    """The kernels for some choices of the op's type variables; no choices means all."""

    kernels: tuple[Kernel, ...]
    choices: tuple[tuple[torch.dtype, ...], ...] = ()


@dataclass(frozen=True)
class Declared:
    """An op as its module declares it.

    `parameters` are the names in the order of the public function. `prepared` remembers checked calls by their
    signature, and `ready` those that can be launched without another look at their arguments.
    """

    operator: Operator
    parameters: tuple[str, ...]
    variants: tuple[Variant, ...]
    reference: Callable[..., Any]
    prepared: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    ready: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def kernels(self, types: Mapping[str, torch.dtype]) -> tuple[Kernel, ...]:
        """The kernels that serve a choice of the type variables."""
        choice = tuple(types[name] for name in self.operator.variables)
        return next(one.kernels for one in self.variants if not one.choices or choice in one.choices)


@dataclass(frozen=True)
class Prepared:
    """A call signature, planned: what to allocate (shape, strides, type) and what to launch."""

    bound: Bound
    results: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]
    launches: tuple[tuple[Kernel, Launch], ...]


def as_it_is(kernel: Any) -> Any:
    """The kernel that is launched, where nobody wants to see the launches."""
    return kernel


def compute(
    entry: Declared,
    tensors: Tensors,
    scalars: Arguments,
    consts: Arguments,
    *,
    outputs: Sequence[torch.Tensor] | None = None,
    config: Config | None = None,
    via: Callable[[Any], Any] = as_it_is,
) -> tuple[torch.Tensor, ...]:
    """Allocates the results of a checked call (unless `outputs` are given) and launches its kernels.

    `via` wraps each kernel, for those who want to see the launches: the registered operator's are PyTorch's to see.
    """
    op = entry.operator
    written = dict(zip((spec.name for spec in op.results), outputs or ()))
    key = ("launch", config, *((tensor.shape, tensor.stride()) for tensor in written.values()))
    prepared = remembered(
        entry, key, tensors, consts, lambda: _prepare(entry, tensors, consts, written, config)
    )
    if prepared is None:
        return _compute_on_copies(entry, tensors, scalars, consts, written, config, via)
    values = {**tensors, **scalars, **consts}
    old = [_old(values[spec.name]) for spec in op.inputs if spec.written and spec.across]
    return launch(prepared, [values[name] for name in entry.parameters], tuple(written.values()), old, via)


def launch(
    prepared: Prepared,
    values: Sequence[Any],
    outputs: tuple[torch.Tensor, ...],
    old: Sequence[torch.Tensor] = (),
    via: Callable[[Any], Any] = as_it_is,
) -> tuple[torch.Tensor, ...]:
    """Launches a planned call; `values` are the op's parameters in order, and no `outputs` are given for new ones.

    `old` holds the values of tensors updated in place that kernels read across elements.
    """
    device = prepared.bound.device
    if not outputs:
        outputs = tuple(
            [torch.empty_strided(*layout, dtype=dtype, device=device) for *layout, dtype in prepared.results]
        )
    with _on(device):
        for kernel, figures in prepared.launches:
            kernel.launch(via, figures, prepared.bound.sizes, *values, *outputs, *old)
    return outputs


def _old(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the same layout."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def runs_kernels(device: torch.device) -> bool:
    """Whether tensors of a device go to the kernels; others take the eager reference."""
    return device.type == "cuda" or (INTERPRETED and device.type == "cpu")


def _prepare(
    entry: Declared, tensors: Tensors, consts: Arguments, outputs: Tensors, config: Config | None
) -> Prepared | None:
    """Plans a call; None where some kernel's space has too many dims to read the tensors in place."""
    op = entry.operator
    bound = bind(op, tuple(tensors.values()), consts)
    results = tuple(
        (bound.shape(spec), result_strides(op, bound, tuple(tensors.values()), spec), bound.dtype(spec))
        for spec in op.results
    )
    layouts = {
        spec.name: outputs.get(spec.name, _Layout(shape, strides))
        for spec, (shape, strides, _) in zip(op.results, results)
    }
    launches: list[tuple[Kernel, Launch]] = []
    for kernel in entry.kernels(bound.types):
        chosen = config or _choose(kernel, bound, tensors, results)
        try:
            launch = plan(kernel.walk, bound, {**tensors, **layouts}, chosen)
        except NotImplementedError:
            return None
        if launch is not None:
            launches.append((kernel, launch))
    return Prepared(bound, results, tuple(launches))


class _Layout:
    """The shape and strides of a result that is not allocated yet, read as from a tensor."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape = shape
        self._strides = strides

    def stride(self) -> tuple[int, ...]:
        return self._strides


def _choose(kernel: Kernel, bound: Bound, tensors: Tensors, results: Sequence[Any]) -> Config:
    """The config for the device, by the bytes of the widest element that moves."""
    target = target_of(bound.device)
    table = kernel.configs.get(target) or kernel.configs[_nearest(target, kernel.configs)]
    widths = [tensor.dtype.itemsize for tensor in tensors.values() if tensor is not None]
    width = max(widths + [dtype.itemsize for _, _, dtype in results])
    return table[min((known for known in table if known >= width), default=max(table))]


def _nearest(target: str, configs: Mapping[str, Any]) -> str:
    """The table's target for a device that it does not name: the newest of the same family not above it."""
    family = target[:3]
    same = sorted(name for name in configs if name[:3] == family)
    below = [name for name in same if (len(name), name) <= (len(target), target)]
    return below[-1] if below else same[0] if same else sorted(configs)[0]


@functools.cache
def target_of(device: torch.device) -> str:
    """The target name of a device, such as `sm_90` or `gfx942`."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return "sm_80"
    if torch.version.hip is not None:
        return str(torch.cuda.get_device_properties(device).gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def _compute_on_copies(
    entry: Declared,
    tensors: Tensors,
    scalars: Arguments,
    consts: Arguments,
    outputs: Mapping[str, torch.Tensor],
    config: Config | None,
    via: Callable[[Any], Any],
) -> tuple[torch.Tensor, ...]:
    """The same over dense copies in one order of dims: for layouts of more than six dims that do not merge."""
    op = entry.operator
    target = (*op.results, *(spec for spec in op.inputs if spec.written))[0]
    copies = {
        spec.name: None if (tensor := tensors[spec.name]) is None else _dense_copy(tensor, spec, target)
        for spec in op.inputs
    }
    if all(copies[name] is tensor for name, tensor in tensors.items()) and not outputs:
        raise NotImplementedError(
            f"{op.name}: the shapes {[tuple(tensor.shape) for tensor in tensors.values() if tensor is not None]} "
            "broadcast against each other in more than six dims; expand and copy one of them first"
        )
    results = compute(entry, copies, scalars, consts, config=config, via=via)
    for spec in op.inputs:
        tensor, copy = tensors[spec.name], copies[spec.name]
        if spec.written and tensor is not None and copy is not None and copy is not tensor:
            tensor.copy_(copy)
    if not outputs:
        bound = bind(op, tuple(tensors.values()), consts)
        layouts = (result_strides(op, bound, tuple(tensors.values()), spec) for spec in op.results)
        return tuple(_laid_out(result, strides) for result, strides in zip(results, layouts))
    for output, result in zip(outputs.values(), results):
        output.copy_(result)
    return tuple(outputs.values())


def _dense_copy(tensor: torch.Tensor, own: Tensor, target: Tensor) -> torch.Tensor:
    """The tensor where it is dense in the order of another's dims, else a copy that is."""
    named = own.parsed[1:] if own.has_ellipsis else own.parsed
    leading = tensor.dim() - len(named)
    places = {(one.name, one.times): place for place, one in enumerate(target.parsed)}
    order = sorted(range(len(named)), key=lambda at: places.get((named[at].name, named[at].times), -1))
    dims = (*range(leading), *(leading + at for at in order))
    turned = tensor.permute(dims)
    if turned.is_contiguous():
        return tensor
    return turned.contiguous().permute(tuple(dims.index(at) for at in range(tensor.dim())))


def _laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor where it has these strides, else a copy that has."""
    if tensor.stride() == strides:
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def remembered(
    entry: Declared, kind: tuple[Any, ...], tensors: Tensors, consts: Arguments, make: Callable[[], Any]
) -> Any:
    """`make()`, remembered by the layout of the tensors; never while symbolic sizes may be around."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return make()
    try:
        key = (
            *kind,
            *consts.values(),
            *(
                None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
                for tensor in tensors.values()
            ),
        )
    except (AttributeError, RuntimeError, TypeError):
        return make()  # something that is no strided tensor, which `make` refuses
    found = entry.prepared.get(key, _MISSING)
    if found is _MISSING:
        found = make()
        if len(entry.prepared) >= REMEMBERED_CALLS:
            entry.prepared.clear()
        entry.prepared[key] = found
    return found


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes a GPU current for a launch, if it is not."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(device)
