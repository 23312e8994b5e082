"""The formula of an op over the intervals of the tests' oracle, as the body of a Python function.

It is written apart from the kernels and from the eager reference: types follow from the oracle's own rules of
conversion, so that a wrong `Convert` in a graph shows as a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from opgen.dtypes import DTYPES, DType
from opgen.emit.dialects import number_text
from opgen.emit.exprs import ATOM, Dialect, Printer, Text
from opgen.emit.layouts import Layout, is_aligned, is_structural, layouts, moved_when_read
from opgen.emit.names import RESERVED, Names, type_name
from opgen.emit.reference import is_variant
from opgen.emit.variants import specialised
from opgen.ir.nodes import (
    Const,
    Contract,
    Dim,
    Element,
    Gather,
    Graph,
    Index,
    Literal,
    Number,
    Op,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
    TensorParam,
    Value,
    Variant,
)
from opgen.ir.passes.parts import target_dims
from opgen.primitives import PRIMITIVES, REDUCTIONS

_LEAVES = "align cast contract exact exact_nibbles filled index length rand scalar spread take".split() + [
    f"{kind}_over" for kind in REDUCTIONS
]
#: What a formula may import from the oracle.
EXPORTS = frozenset({*_LEAVES, *(row.oracle for row in PRIMITIVES.values() if row.oracle.isidentifier())})
_TAKES_NUMBERS = frozenset({"where", "minimum", "maximum", "clamp", "equal"})


@dataclass(frozen=True)
class OracleText:
    """A function over the parameters in order: their names inside it, its body, and what that imports."""

    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    functions: tuple[str, ...]


def oracle_text(op: Op) -> OracleText:
    """The oracle of an op.

    The function takes tensors (or None) and numbers, and returns a value for each result, then for each tensor that is
    updated in place.
    """
    taken = RESERVED | EXPORTS | {"leading", *(type_name(variable.name) for variable in op.variables)}
    local = Names(taken)
    names = {param.name: local.fresh(param.name) for param in op.params}
    bodies: dict[tuple[str, ...], Variant] = {}  # with what they serve
    for number, variant in enumerate(op.variants):
        body = tuple(_Body(specialised(op, number), variant.graph, names, local.copy()).lines())
        served = bodies[body].choices if body in bodies else ()
        bodies[body] = replace(variant, choices=(*served, *variant.choices))
    *earlier, last = bodies
    lines: list[str] = []
    for body in earlier:
        lines += [f"if {is_variant(op, bodies[body], names)}:", *(f"    {line}" for line in body)]
    lines += last
    words = set(re.findall(r"\w+", "\n".join(lines)))
    return OracleText(tuple(names.values()), tuple(lines), tuple(sorted(words & EXPORTS)))


def _literal(number: Number, dtype: DType, typed: bool) -> Text:
    plain = number_text(number, dtype)
    return plain if typed else Text(f'scalar({plain.code}, "{dtype.compute}")')


def _convert(text: Text, _source: DType, _target: DType) -> Text:
    """Nothing: values of the oracle meet in the wider of their types by themselves."""
    return text


def _cast(text: Text, _source: DType, element: Element) -> Text:
    return Text(f"cast({text.code}, {type_name(element.variable) or f'torch.{element.dtype.torch}'})")


ORACLE = Dialect(
    spelling=lambda primitive: primitive.oracle,
    literal=_literal,
    convert=_convert,
    cast=_cast,
    takes_numbers=_TAKES_NUMBERS,
)


def dim_name(dim: Dim) -> str:
    """A dim as one word, as the oracle's functions take them."""
    return str(dim).replace(" ", "")


def _words(layout: Layout) -> str:
    """A layout as words; a place of one element is a dash."""
    return '"' + " ".join("-" if slot is None else dim_name(slot) for slot in layout) + '"'


@dataclass
class _Body:
    """The body for one variant; `sizes` collects the locals that hold sizes of dims."""

    op: Op
    graph: Graph
    names: dict[str, str]
    local: Names
    layouts: tuple[Layout, ...] = ()
    moved: dict[str, Layout] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        moved = moved_when_read(self.graph, layouts(self.graph))
        self.moved = {name: onto for name, onto in moved.items() if not self._is_gathered(name)}
        self.layouts = layouts(self.graph, self.moved)
        printer = Printer(self.graph, ORACLE, self.local, self._leaf, self._moved)
        texts = dict(zip((store.target for store in self.graph.stores), printer.body(), strict=True))
        refs = {store.target: store.value for store in self.graph.stores}
        reads = self._reads()
        returned = [
            self._over(texts[name], self.layouts[refs[name]], dims)
            for name, dims in target_dims(self.op).items()
        ]
        body = [*reads, *printer.lines, f"return {', '.join(returned)}"]
        return [*self._types(body), *self._size_lines(), *body]

    # --- before the formula ---------------------------------------------------------------------

    def _types(self, body: list[str]) -> list[str]:
        words = set(re.findall(r"\w+", "\n".join(body)))
        lines = []
        for variable in self.op.variables:
            if type_name(variable.name) in words:
                owner = next(one for one in self._required() if one.element.variable == variable.name)
                lines.append(f"{type_name(variable.name)} = {self.names[owner.name]}.dtype")
        return lines

    def _required(self) -> list[TensorParam]:
        return [tensor for tensor in self.op.tensors if not tensor.optional]

    def _reads(self) -> list[str]:
        """The lines that turn parameters into values over the space; a gathered tensor keeps its dims."""
        nodes = [value.node for value in self.graph.values]
        used = {node.param for node in nodes if isinstance(node, Read | Gather | Scalar | Const)}
        tensors = [tensor for tensor in self.op.tensors if tensor.name in used]
        scalars = [scalar for scalar in (*self.op.scalars, *self.op.consts) if scalar.name in used]
        names = self.names
        return [
            *(f"{names[tensor.name]} = {self._value_of(tensor)}" for tensor in tensors),
            *(f'{names[one.name]} = scalar({names[one.name]}, "{one.dtype.compute}")' for one in scalars),
        ]

    def _value_of(self, tensor: TensorParam) -> str:
        name, dtype = self.names[tensor.name], tensor.element.dtype
        value = f"exact_nibbles({name}, signed={dtype.lowest < 0})" if dtype.is_packed else f"exact({name})"
        if tensor.name in self.moved:
            value = self._over(value, tensor.dims, self.moved[tensor.name])
        if tensor.default is None:
            return value
        default = _literal(tensor.default, DTYPES[dtype.compute], False).code
        own = tuple(dim for dim in tensor.dims if not dim.is_ellipsis)
        if own and is_structural(self.op):  # it may be summed: its elements count
            default = f"filled({default}, {', '.join(self._size(dim) for dim in own)})"
            if tensor.name in self.moved:
                default = self._over(default, own, self.moved[tensor.name])
        return f"{default} if {name} is None else {value}"

    def _is_gathered(self, name: str) -> bool:
        return any(isinstance(one.node, Gather) and one.node.param == name for one in self.graph.values)

    def _over(self, value: str, own: Layout, onto: Layout) -> str:
        """A value as one that broadcasts with others of a layout; elements of a coarser dim are repeated."""
        for place, slot in enumerate(own):
            finer = next((one for one in onto if slot and one and _divides(slot, one)), slot)
            if slot is not None and finer is not None and finer != slot:
                value = f"spread({value}, {place - len(own)}, {slot.over // finer.over})"
                own = (*own[:place], finer, *own[place + 1 :])
        return value if is_aligned(own, onto) else f"align({value}, {_words(own)}, {_words(onto)})"

    def _moved(self, text: Text, user: Ref, ref: Ref) -> Text:
        """An operand as it meets the others of its user."""
        moved = self._over(text.code, self.layouts[ref], self.layouts[user])
        return text if moved == text.code else Text(moved)

    # --- inside the formula ---------------------------------------------------------------------

    def _leaf(self, printer: Printer, ref: Ref, value: Value) -> Text:
        match value.node:
            case Read(param=name) | Scalar(param=name) | Const(param=name):
                return Text(self.names[name])
            case Size(dim=dim):
                return Text(f"length({self._size(dim)})")
            case Index(dim=dim):
                return Text(f"index({self._size(dim)})")
            case Random(dims=dims, seed=seed):
                sizes = "".join(f"{self._size(dim)}, " for dim in dims)
                literal = isinstance(self.graph.values[seed].node, Literal)
                key = printer.alone(seed) if literal else printer.text(seed).within(ATOM)
                return Text(f"rand(({sizes}), int({key}.value))")
            case Gather(param=name, coordinates=coordinates):
                space = value.type.dims
                at = ", ".join(
                    f'"{dim_name(dim)}": {self._over(printer.alone(place), self.layouts[place], space)}'
                    for dim, place in coordinates
                )
                own = _words(self._tensor(name).dims)
                return Text(f"take({self.names[name]}, {own}, {{{at}}}, {_words(space)})")
            case Reduce(kind=kind, arg=arg, dims=dims):
                reduced = f"{_words(self.layouts[arg])}, {_words(dims)}"
                return Text(f"{kind}_over({printer.alone(arg)}, {reduced})")
            case Contract(left=left, right=right, dim=dim):
                sides = ", ".join(self._side(printer, one) for one in (left, right))
                precision = product_precision(self.op)
                narrowed = "" if precision == "ieee" else f', precision="{precision}"'
                return Text(f'contract({sides}, "{dim_name(dim)}"{narrowed})')
            case _:
                raise AssertionError(f"no leaf: {value.node}")

    def _side(self, printer: Printer, ref: Ref) -> str:
        """An operand of a contraction and its dims."""
        dims = self.graph.values[ref].type.dims
        text = printer.alone(ref)
        if self.layouts[ref] != dims:
            text = f"align({text}, {_words(self.layouts[ref])}, {_words(dims)})"
        return f"{text}, {_words(dims)}"

    def _tensor(self, name: str) -> TensorParam:
        return next(tensor for tensor in self.op.tensors if tensor.name == name)

    # --- sizes ----------------------------------------------------------------------------------

    def _size(self, dim: Dim) -> str:
        """The text of a dim's size."""
        if dim.is_ellipsis:
            self.sizes.setdefault("...", "leading")
            return "*leading"
        if dim.fixed is not None:
            return dim.name
        name = self.sizes.setdefault(dim.name, "")
        if not name:
            name = self.sizes[dim.name] = self.local.fresh(dim.name)
        if dim.times != 1:
            return f"{name} * {dim.times}"
        return f"{name} // {dim.over}" if dim.over != 1 else name

    def _size_lines(self) -> list[str]:
        return [
            f"{name} = {self._leading() if dim == '...' else self._extent(dim)}"
            for dim, name in self.sizes.items()
        ]

    def _leading(self) -> str:
        shapes = []
        for tensor in self.op.tensors:
            if tensor.dims and tensor.dims[0].is_ellipsis:
                name, rest = self.names[tensor.name], len(tensor.dims) - 1
                shape = f"{name}.shape[:-{rest}]" if rest else f"{name}.shape"
                shapes.append(f"(() if {name} is None else {shape})" if tensor.optional else shape)
        return shapes[0] if len(shapes) == 1 else f"torch.broadcast_shapes({', '.join(shapes)})"

    def _extent(self, name: str) -> str:
        """The size of a named dim, read off the first tensor that carries it."""
        carriers = [(tensor, dim) for tensor in self._required() for dim in tensor.dims if dim.name == name]
        tensor, dim = min(carriers, key=lambda carrier: carrier[1] != Dim(name))
        place = tensor.dims.index(dim) - len(tensor.dims)
        text = f"{self.names[tensor.name]}.shape[{place}]"
        times = dim.over * (2 if tensor.element.dtype.is_packed and place == -1 else 1)
        if times != 1:
            text = f"{text} * {times}"
        return f"{text} // {dim.times}" if dim.times != 1 else text


def product_precision(op: Op) -> str:
    """The least precision in which some target may multiply f32 operands."""
    asked = {value for hint in op.hints if hint.key == "precision" for value in hint.values}
    return next((one for one in ("tf32", "tf32x3") if one in asked), "ieee")


def _divides(coarse: Dim, dim: Dim) -> bool:
    """Whether elements of a dim cover elements of another: both are parts of one named dim."""
    return coarse.family == dim.family
