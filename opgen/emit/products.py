"""A product plan as words: formula and prologues, the kernels of each strategy, and their launcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opgen.emit.contexts import ElementContext, ProductContext, SumContext
from opgen.emit.dialects import TRITON
from opgen.emit.exprs import Printer, Text
from opgen.emit.kernel_leaves import Leaves
from opgen.emit.kernel_memory import nibble, plain_access
from opgen.emit.kernel_names import Kernel, LaunchNames, pointer_of_type, result_names, types_cast_to
from opgen.emit.kernels import Signature, given, grouped, signature_of, varying
from opgen.emit.names import Names, type_name
from opgen.emit.product_lines import (
    Addressing,
    early_tensors,
    is_plain,
    load_lines,
    offset_lines,
    operand_text,
    raw_load,
    store_lines,
    to_type,
)
from opgen.emit.product_names import (
    GROUPS,
    SIZES,
    Piece,
    groups_of,
    kernel_words,
    mentioned,
    named_kernel,
    piece,
    stride_names,
)
from opgen.ir.nodes import Op, Read, Ref, Value
from opgen.plan.model import Access, Operand, Product, ProductPlan

#: What the function that writes a tile takes first, behind the sums.
_PLACE = ("batch", "m", "n", "m_ok", "n_ok")
_RANKS = tuple(f"{group.upper()}_RANK" for group in GROUPS)


@dataclass(frozen=True)
class _Side:
    """An operand on its side of the products; `tile` is the name of its tile, as it is multiplied."""

    side: str
    operand: Operand
    tile: str


def product_context(
    op: Op, plan: ProductPlan, variant: int, stem: str, module_names: Names, launch: LaunchNames
) -> ProductContext:
    """The words of one product of one variant, in an op as it sees it; `stem` begins the names of its functions."""
    kernel, used = named_kernel(op, plan, variant, launch)
    products = plan.products[variant]
    sums = _sum_names(kernel, products)
    sides = _sides(kernel, products)
    elements, outside, steps = _operands(kernel, plan, sides, stem, module_names, launch)
    writer = piece(kernel, None, sums)
    stored = " and ".join(store.target for store in kernel.part.graph.stores)
    doc = f"`{stored}` of {op.name} for one tile, in the types that it computes in."
    formula = _element_context(writer, launch, module_names.fresh(f"{stem}_formula"), doc, sums)
    early = early_tensors(writer, plan.sides)
    early_lines = tuple(load_lines(writer, Addressing(kernel, plan.sides, "kernel"), steps=None, names=early))
    write_lines = _write_lines(writer, Addressing(kernel, plan.sides, "formula"), formula, early)
    signature = signature_of(kernel, used, launch)
    loaded = tuple(kernel.values[name] for name in sorted(early))
    write_parameters, write_arguments = _passed(
        kernel, plan, signature, (*sums.values(), *loaded), write_lines
    )
    write_arguments = (*grouped(loaded), *write_arguments)
    strides = [name for names in _strides(kernel, plan).values() for name in names]
    numbers = (*signature.scalars, *signature.integers, *SIZES, *strides)
    pointers = (*signature.pointers, "partial_ptr")
    streams = [side for side in sides if is_plain(kernel, side.operand)]
    given_pointers, given_numbers = signature.given[: len(pointers) - 1], signature.given[len(pointers) - 1 :]
    return ProductContext(
        elements=(*elements, formula),
        sums=tuple(_sum(products, place, sides, sums) for place in range(len(products))),
        count=str(len(products)),
        apart=_times(len(products), "batch_size"),
        write=module_names.fresh(f"{stem}_write"),
        write_doc=f"Computes and stores a tile of `{stored}` from its sums.",
        write_parameters=write_parameters,
        write_lines=write_lines,
        write_arguments=write_arguments,
        decorator=varying(len(pointers), len(numbers)),
        pointers=grouped(pointers),
        parameters=_parameters(kernel, plan, signature),
        early_lines=early_lines,
        tiles=module_names.fresh(f"{stem}_tiles"),
        outside_lines=outside,
        step_lines=steps,
        finish=module_names.fresh(f"{stem}_finish"),
        has_streams=len(streams) == len(sides),
        stream=module_names.fresh(f"{stem}_stream"),
        stream_decorator=varying(len(pointers) + len(sides) - 1, len(numbers)),
        stream_operands=grouped([f"{side.tile}_desc" for side in sides], signature.pointers),
        stream_lines=tuple(_streamed_tile(side) for side in sides),
        can_span=len(streams) == len(sides) == 3 and [side.side for side in sides].count("right") == 2,
        span=module_names.fresh(f"{stem}_span"),
        span_decorator=varying(len(pointers) + 1, len(numbers)),
        span_operands=grouped([f"{sides[0].tile}_desc", "right_desc"], signature.pointers),
        span_dtype=f"tl.{products[0].sums.triton}",
        span_left=sides[0].tile,
        span_line=_streamed_tile(sides[0]),
        launch=module_names.fresh(f"_launch{stem}"),
        launch_parameters=launch.parameters,
        via=launch.via,
        figures=launch.figures,
        device=f"{_device(kernel, launch)}.device",
        left=_given_operands(op, launch, sides, "left"),
        right=_given_operands(op, launch, sides, "right"),
        given_pointers=given_pointers,
        given_numbers=given_numbers,
        given_consts=signature.given_consts,
    )


def plain_operands(op: Op, plan: ProductPlan, variant: int, side: str) -> tuple[str, ...]:
    """The tensors that are multiplied just as they are stored, on one side; none where some operand is not."""
    kernel = Kernel(op, plan, plan.parts[variant], Names())
    products = plan.products[variant]
    operands = [one for product in products for one in (product.left, product.right)]
    if not all(is_plain(kernel, one) for one in operands):
        return ()
    own = [product.left if side == "left" else product.right for product in products]
    return tuple(dict.fromkeys(one.tensor for one in own if one.tensor is not None))


def _sum_names(kernel: Kernel, products: Sequence[Product]) -> dict[Ref, str]:
    """What each product's sums are called: as the spec does, else by number where there are several."""
    names: dict[Ref, str] = {}
    for place, product in enumerate(products):
        spec_name = kernel.part.graph.values[product.ref].name
        number = str(place) if len(products) > 1 else ""
        names[product.ref] = kernel.names.fresh(spec_name or f"product{number}")
    return names


def _sides(kernel: Kernel, products: Sequence[Product]) -> list[_Side]:
    """The operands, left ones first, each once."""
    found: dict[tuple[str, Ref | str], _Side] = {}
    for side in ("left", "right"):
        for product in products:
            operand = product.left if side == "left" else product.right
            key = (side, operand.tensor or operand.ref)
            if key not in found:
                name = f"{operand.tensor}_tile" if operand.tensor is not None else side
                found[key] = _Side(side, operand, kernel.names.fresh(name))
    return list(found.values())


def _operands(
    kernel: Kernel,
    plan: ProductPlan,
    sides: Sequence[_Side],
    stem: str,
    module_names: Names,
    launch: LaunchNames,
) -> tuple[tuple[ElementContext, ...], tuple[str, ...], tuple[str, ...]]:
    """The prologues, the lines before the loop, and those in it that give the tiles of all operands."""
    elements: list[ElementContext] = []
    outside: list[str] = []
    steps: list[str] = []
    for side in sides:
        at = Addressing(kernel, plan.sides, side.side)
        if side.operand.tensor is not None:
            steps += _plain_tile(kernel, at, side)
            continue
        own = piece(kernel, side.operand.ref, {})
        doc = f"The {side.side} operand of {kernel.op.name} for one step."
        prologue = _element_context(own, launch, module_names.fresh(f"{stem}_{side.tile}"), doc, {})
        elements.append(prologue)
        outside += [*offset_lines(own, at, steps=False), *load_lines(own, at, steps=False)]
        steps += [*offset_lines(own, at, steps=True), *load_lines(own, at, steps=True)]
        steps += _computed_tile(own, at, side, prologue)
    return tuple(elements), tuple(outside), tuple(steps)


def _element_context(
    one: Piece, launch: LaunchNames, name: str, doc: str, sums: dict[Ref, str]
) -> ElementContext:
    """A function over elements: what it takes is what its graph reads."""
    kernel = one.kernel
    leaves = Leaves(kernel, launch)
    own = set(sums.values())

    def leaf(printer: Printer, ref: Ref, value: Value) -> Text:
        if isinstance(value.node, Read):
            local = value.node.param if value.node.param in own else kernel.values[value.node.param]
            kernel.formula[local] = local
            return Text(local)
        return leaves.text(printer, ref, value)

    for variable in types_cast_to(one.graph.values):
        parameter = f"{type_name(variable)}: tl.constexpr"
        kernel.formula[parameter] = f"{pointer_of_type(kernel, variable)}.dtype.element_ty"
    printer = Printer(one.graph, TRITON, kernel.names, leaf)
    returned = ", ".join(printer.body())
    return ElementContext(name, doc, tuple(kernel.formula), tuple(printer.lines), returned)


def _plain_tile(kernel: Kernel, at: Addressing, side: _Side) -> Iterator[str]:
    """The lines that load a tensor's tile in the type that it is multiplied in."""
    name = side.operand.tensor
    assert name is not None
    tensor = kernel.tensors[name]
    access = plain_access(kernel.stems, name)
    assert access is not None  # it carries the dim that is summed over
    loaded = raw_load(kernel, at, name, access, over=("m" if side.side == "left" else "n",))
    if tensor.element.dtype.is_packed:
        position = Access(None, (tensor.dims[-1],))
        yield f"{kernel.offsets[position]} = {at.offset(position)}"
        loaded = nibble(tensor, loaded, kernel.offsets[position])
    yield f"{side.tile} = {operand_text(kernel, loaded, tensor.element, side.operand.element)}"


def _computed_tile(one: Piece, at: Addressing, side: _Side, prologue: ElementContext) -> Iterator[str]:
    """The lines that compute an operand's tile, zero outside."""
    row = "m_ok" if side.side == "left" else "n_ok"
    inside = f"{row} & k_{side.side}_ok"
    optional = {tensor.name for tensor in one.kernel.op.tensors if tensor.optional}
    if not any(at.steps(access) for access in one.accesses if access.tensor not in optional):
        inside += f" & ({side.side}_depth >= 0)"  # a default has no positions of its own
    arguments = ", ".join(inside if value == "mask" else value for value in one.kernel.formula.values())
    yield f"{side.tile} = tl.where({inside}, {prologue.name}({arguments}), 0)"
    yield f"{side.tile} = {to_type(one.kernel, side.tile, side.operand.element)}"


def _streamed_tile(side: _Side) -> str:
    row = "tile_m * BLOCK_M" if side.side == "left" else "tile_n * BLOCK_N"
    turned = f"{side.side.upper()}_TURNED"
    return f"{side.tile} = streamed_{side.side}({side.tile}_desc, tile_batch, {row}, start, {turned}, BATCHED, FORM)"


def _sum(products: Sequence[Product], place: int, sides: Sequence[_Side], sums: dict[Ref, str]) -> SumContext:
    product, count = products[place], len(products)
    left, right = (
        next(one.tile for one in sides if one.side == side and _is_same(one.operand, operand))
        for side, operand in (("left", product.left), ("right", product.right))
    )
    # The partial sums are matrices `[pieces, products, batch]`.
    row = f"({_times(count, 'part')} + {place})" if place else _times(count, "part")
    piece = f"{row} * batch_size + tile_batch"
    first = f"{_times(place, 'batch_size')} + tile_batch" if place else "tile_batch"
    return SumContext(sums[product.ref], str(place), f"tl.{product.sums.triton}", left, right, piece, first)


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} * {name}"


def _is_same(one: Operand, other: Operand) -> bool:
    return one.ref == other.ref or (one.tensor is not None and one.tensor == other.tensor)


def _write_lines(
    one: Piece, at: Addressing, formula: ElementContext, early: frozenset[str]
) -> tuple[str, ...]:
    """The lines that load what the formula takes besides, call it, and store."""
    late = frozenset(tensor.name for tensor in one.kernel.op.tensors) - early
    results = result_names(one.kernel, one.kernel.part.graph.stores, kernel_words(one.kernel))
    arguments = ("m_ok & n_ok" if value == "mask" else value for value in one.kernel.formula.values())
    call = f"{', '.join(results)} = {formula.name}({', '.join(arguments)})"
    loads = load_lines(one, at, steps=None, names=late)
    return (*offset_lines(one, at, steps=None), *loads, call, *store_lines(one, at, results))


def _strides(kernel: Kernel, plan: ProductPlan) -> dict[str, tuple[str, ...]]:
    """The stride parameters of each access, by how their names begin."""
    return {
        stem: tuple(name for group in groups_of(plan.sides, access) for name in stride_names(stem, group))
        for access, stem in kernel.stems.items()
    }


def _parameters(kernel: Kernel, plan: ProductPlan, signature: Signature) -> tuple[str, ...]:
    """The parameters of every kernel behind its pointers, up to those that a config gives."""
    return grouped(
        signature.scalars,
        signature.integers,
        SIZES,
        *_strides(kernel, plan).values(),
        [f"{stem}_layout: tl.constexpr" for stem in kernel.stems.values()],
        signature.consts,
        [f"{rank}: tl.constexpr" for rank in _RANKS],
    )


def _passed(
    kernel: Kernel, plan: ProductPlan, signature: Signature, values: tuple[str, ...], lines: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the function that writes a tile takes, and what kernels give it behind the values."""
    tuples = {
        f"{stem}_{GROUPS[group]}": f"({', '.join(stride_names(stem, group))})"
        for access, stem in kernel.stems.items()
        for group in groups_of(plan.sides, access)
    }
    plain = mentioned((*signature.pointers, *signature.scalars, *signature.integers), lines)
    strides = mentioned(tuples, lines)
    consts = [name.partition(":")[0] for name in signature.consts]
    layouts = [f"{stem}_layout" for stem in kernel.stems.values()]
    compiled = mentioned((*layouts, *consts, *_RANKS), lines)
    parameters = grouped(values, _PLACE, plain, strides, [f"{name}: tl.constexpr" for name in compiled])
    return parameters, grouped(_PLACE, plain, [tuples[name] for name in strides], compiled)


def _given_operands(op: Op, launch: LaunchNames, sides: Sequence[_Side], wanted: str) -> str:
    """The operands of one side as a tuple of the launcher's."""
    names = [one.operand.tensor for one in sides if one.side == wanted]
    texts = [given(op, name, launch.old.get(name, launch.of[name])) for name in names if name is not None]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _device(kernel: Kernel, launch: LaunchNames) -> str:
    """A tensor that every call has."""
    return launch.of[kernel.part.graph.stores[0].target]
