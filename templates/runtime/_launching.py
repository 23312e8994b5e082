"""The arithmetic of a launch: what a checked call allocates, which kernels it runs, and with which config."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import triton

from ._binding import Bound, Operator, Tensor, bind
from ._copies import dense_copies, laid_out, same
from ._elementwise import Config, Launch, Walk, plan, result_strides
from ._layout import is_traced, row_major
from ._repeating import Repeated

#: Whether kernels run in Triton's interpreter, on CPU tensors.
INTERPRETED: bool = triton.knobs.runtime.interpret

REMEMBERED_CALLS = 4096
_MISSING = object()

Arguments = Mapping[str, Any]
Tensors = Mapping[str, "torch.Tensor | None"]


class NeedsReference(Exception):
    """A legal call that no kernel computes: the eager reference does."""


class AnyKernel(Protocol):
    """One kernel of an op: its launcher, and how a call is planned for it."""

    @property
    def launch(self) -> Callable[..., None]:
        """The generated launcher."""

    def prepare(self, bound: Bound, layouts: Mapping[str, Any], config: Any | None) -> Any | None:
        """The figures of a launch, or None where there is nothing to compute.

        `layouts` are all tensors by name, those that are not allocated yet as their shape, strides and type; without
        a `config` the kernel's own table gives it. Raises `NotImplementedError` where the layouts cannot be walked in place,
        and `NeedsReference` where no layout can.
        """


@dataclass(frozen=True)
class Kernel:
    """An elementwise kernel: its walk, its launcher, and its configs by target and bytes of the widest element."""

    walk: Walk
    launch: Callable[..., None]
    configs: Mapping[str, Mapping[int, Config]]

    def prepare(self, bound: Bound, layouts: Mapping[str, Any], config: Config | None) -> Launch | None:
        """The figures of a launch; see `AnyKernel`."""
        return plan(self.walk, bound, layouts, config or self._choose(bound, layouts))

    def _choose(self, bound: Bound, layouts: Mapping[str, Any]) -> Config:
        """The config for the device, by the bytes of the widest element that moves."""
        return for_widest(for_target(self.configs, bound.device), layouts.values())


@dataclass(frozen=True)
class Variant:
    """The kernels for some choices of the op's type variables, in launch order; no choices means all.

    `temporaries` are the tensors that one kernel writes and later ones read.
    """

    kernels: tuple[AnyKernel, ...]
    choices: tuple[tuple[torch.dtype, ...], ...] = ()
    temporaries: tuple[Tensor, ...] = ()


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

    def variant(self, types: Mapping[str, torch.dtype]) -> Variant:
        """The variant that serves a choice of the type variables."""
        choice = tuple(types[name] for name in self.operator.variables)
        return next(one for one in self.variants if not one.choices or choice in one.choices)


class Layout:
    """A tensor that is not allocated yet, read as one where its shape, strides and type are asked for."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self._strides = strides

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def empty(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self._strides, dtype=self.dtype, device=device)


@dataclass(frozen=True)
class Prepared:
    """A call signature, planned: what to allocate and what to launch."""

    bound: Bound
    results: tuple[Layout, ...]
    temporaries: tuple[Layout, ...]
    launches: tuple[tuple[AnyKernel, Any], ...]
    via: Callable[[Any], Any]

    @property
    def is_repeatable(self) -> bool:
        """Whether the launches of a further call on this GPU differ by the tensors and numbers alone."""
        return isinstance(self.via, Repeated) and all(figures.is_repeatable for _, figures in self.launches)


def as_it_is(kernel: Any) -> Any:
    """The kernel itself: the `via` of launches that go through Triton each time."""
    return kernel


def compute(
    entry: Declared,
    tensors: Tensors,
    scalars: Arguments,
    consts: Arguments,
    *,
    outputs: Sequence[torch.Tensor] | None = None,
    config: Any | None = None,
    via: Callable[[Any], Any] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Allocates the results of a checked call (unless `outputs` are given) and launches its kernels.

    `via` wraps each kernel, for those who want to see the launches: the registered operator's are PyTorch's to see.
    Without it, repeated launches take what was compiled for the first.
    """
    op = entry.operator
    written = dict(zip((spec.name for spec in op.results), outputs or ()))
    key = ("launch", config, *((tensor.shape, tensor.stride()) for tensor in written.values()))
    try:
        prepared = remembered(
            entry, key, tensors, consts, lambda: _prepare(entry, tensors, consts, written, config)
        )
    except NeedsReference:
        results = call_reference(entry, bound_of(entry, tensors, consts), {**tensors, **scalars, **consts})
        return tuple(output.copy_(result) for output, result in zip(outputs, results)) if outputs else results
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
    via: Callable[[Any], Any] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Launches a planned call; `values` are the op's parameters in order, and no `outputs` are given for new ones.

    `old` holds the values of tensors updated in place that kernels read across elements.
    """
    outputs, temporaries = allocated(prepared, outputs)
    with on(prepared.bound.device):
        launch_kernels(prepared, via or prepared.via, (*values, *outputs, *old, *temporaries))
    return outputs


def allocated(
    prepared: Prepared, outputs: tuple[torch.Tensor, ...]
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """The results of a call, new ones where none are given, and the tensors between its kernels."""
    device = prepared.bound.device
    if not outputs:
        outputs = tuple([layout.empty(device) for layout in prepared.results])
    return outputs, tuple([layout.empty(device) for layout in prepared.temporaries])


def launch_kernels(prepared: Prepared, via: Callable[[Any], Any], given: Sequence[Any]) -> None:
    """Launches the kernels of a planned call on the current GPU: its parameters in order, results and temporaries."""
    for kernel, figures in prepared.launches:
        kernel.launch(via, figures, prepared.bound.sizes, *given)


def _old(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the same layout."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def runs_kernels(device: torch.device) -> bool:
    """Whether tensors of a device go to the kernels; others take the eager reference."""
    return device.type == "cuda" or (INTERPRETED and device.type == "cpu")


def _prepare(
    entry: Declared, tensors: Tensors, consts: Arguments, outputs: Tensors, config: Any | None
) -> Prepared | None:
    """Plans a call; None where some kernel's space has too many dims to read the tensors in place."""
    op = entry.operator
    bound = bind(op, tuple(tensors.values()), consts)
    variant = entry.variant(bound.types)
    results = tuple(
        Layout(bound.shape(spec), _strides(op, bound, tensors, spec), bound.dtype(spec)) for spec in op.results
    )
    temporaries = tuple(_temporary(bound, spec) for spec in variant.temporaries)
    layouts: dict[str, Any] = {
        **tensors,
        **{spec.name: outputs.get(spec.name, layout) for spec, layout in zip(op.results, results)},
        **{spec.name: layout for spec, layout in zip(variant.temporaries, temporaries)},
    }
    launches: list[tuple[AnyKernel, Any]] = []
    forced = config if isinstance(config, tuple) else (config,) * len(variant.kernels)
    for kernel, own in zip(variant.kernels, forced, strict=True):
        try:
            figures = kernel.prepare(bound, layouts, own)
        except NotImplementedError:
            return None
        if figures is not None:
            launches.append((kernel, figures))
    via = Repeated(bound.device) if bound.device.type == "cuda" else as_it_is
    return Prepared(bound, results, temporaries, tuple(launches), via)


def _strides(op: Operator, bound: Bound, tensors: Tensors, spec: Tensor) -> tuple[int, ...]:
    """The strides, in elements, of a new result."""
    if spec.contiguous:
        return row_major(bound.shape(spec))
    return result_strides(op, bound, tuple(tensors.values()), spec)


def _temporary(bound: Bound, spec: Tensor) -> Layout:
    shape = bound.shape(spec)
    return Layout(shape, row_major(shape), bound.dtype(spec))


def for_target(configs: Mapping[str, Any], device: torch.device) -> Any:
    """What a table by target has for a device: its own row, else that of the nearest target."""
    target = target_of(device)
    return configs.get(target) or configs[_nearest(target, configs)]


def for_widest(table: Mapping[int, Any], tensors: Iterable[Any]) -> Any:
    """What a table by the bytes of the widest element has for tensors, some of which may be left out."""
    width = max((tensor.dtype.itemsize for tensor in tensors if tensor is not None), default=1)
    return table[min((known for known in table if known >= width), default=max(table))]


@functools.cache
def multiprocessors_of(device: torch.device) -> int:
    """The multiprocessors of a GPU; of one that is not there, those of an H200."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return 132
    return torch.cuda.get_device_properties(device).multi_processor_count


def _nearest(target: str, configs: Mapping[str, Any]) -> str:
    """The table's target for a device that it does not name: the newest of the same family not above it."""
    same = sorted((name for name in configs if name[:3] == target[:3]), key=_generation)
    below = [name for name in same if _generation(name) <= _generation(target)]
    return below[-1] if below else same[0] if same else min(configs, key=_generation)


def _generation(target: str) -> tuple[int, str]:
    """Targets of one family in the order in which they appeared: sm_90 before sm_100."""
    return len(target), target


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
    config: Any | None,
    via: Callable[[Any], Any] | None,
) -> tuple[torch.Tensor, ...]:
    """The same over dense copies in one order of dims: for layouts of more than six dims that do not merge.

    Copies that do not merge, either, are of tensors that broadcast against each other, and take their full leading
    sizes. Where named dims broadcast in so many places, the eager reference computes the results.
    """
    op = entry.operator
    bound = bind(op, tuple(tensors.values()), consts)
    copies = dense_copies(op, tensors, None)
    if not outputs and same(copies, tensors):
        copies = dense_copies(op, tensors, bound.ellipsis)
    if not outputs and same(copies, tensors):
        results = call_reference(entry, bound, {**tensors, **scalars, **consts})
    else:
        results = compute(entry, copies, scalars, consts, config=config, via=via)
    for spec in op.inputs:
        tensor, copy = tensors[spec.name], copies[spec.name]
        if spec.written and tensor is not None and copy is not None and copy is not tensor:
            tensor.copy_(copy)
    if not outputs:
        return _laid_out(entry, bound, tensors, results)
    for output, result in zip(outputs.values(), results):
        output.copy_(result)
    return tuple(outputs.values())


def call_reference(entry: Declared, bound: Bound, values: Arguments) -> tuple[torch.Tensor, ...]:
    """The reference's results, laid out as kernels lay them out; what it computes for tensors updated in place is
    copied into them."""
    op = entry.operator
    results = entry.reference(*(values[name] for name in entry.parameters))
    results = results if isinstance(results, tuple) else (results,)
    updated = [spec for spec in op.inputs if spec.written]
    for spec, new in zip(updated, results[len(op.results) :] if op.results else results):
        values[spec.name].copy_(new)
    results = results[: len(op.results)]
    if torch.compiler.is_compiling():  # the compiler chooses layouts itself
        return results
    return _laid_out(entry, bound, {spec.name: values[spec.name] for spec in op.inputs}, results)


def _laid_out(
    entry: Declared, bound: Bound, tensors: Tensors, results: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Results with the strides of the op's; copies where they have others."""
    layouts = (_strides(entry.operator, bound, tensors, spec) for spec in entry.operator.results)
    return tuple(laid_out(result, strides) for result, strides in zip(results, layouts))


def remembered(
    entry: Declared, kind: tuple[Any, ...], tensors: Tensors, consts: Arguments, make: Callable[[], Any]
) -> Any:
    """`make()`, remembered by the layout of the tensors; never while symbolic sizes may be around."""
    if is_traced():
        return make()
    try:
        key = _key(kind, tensors, consts)
    except (AttributeError, RuntimeError, TypeError):
        return make()  # something that is no strided tensor, which `make` refuses
    found = entry.prepared.get(key, _MISSING)
    if found is _MISSING:
        found = make()
        if len(entry.prepared) >= REMEMBERED_CALLS:
            entry.prepared.clear()
        entry.prepared[key] = found
    return found


def bound_of(entry: Declared, tensors: Tensors, consts: Arguments) -> Bound:
    """What the dims and types of a call are; see `bind`, which checks them."""
    return remembered(
        entry, ("bound",), tensors, consts, lambda: bind(entry.operator, tuple(tensors.values()), consts)
    )


def recalled(entry: Declared, kind: tuple[Any, ...], tensors: Tensors, consts: Arguments) -> Any:
    """What `remembered` keeps for a call of strided tensors; None where it keeps nothing."""
    return entry.prepared.get(_key(kind, tensors, consts))


def _key(kind: tuple[Any, ...], tensors: Tensors, consts: Arguments) -> tuple[Any, ...]:
    layouts = (
        None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        for tensor in tensors.values()
    )
    return (*kind, *consts.values(), *layouts)


def on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes a GPU current for a launch, if it is not."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(device)
