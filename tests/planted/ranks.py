"""Which coordinates of a kernel an op has dims for: those beyond are always 0, and faults in them change nothing."""

from __future__ import annotations

import ast
import functools
import re

from tests.planted.operators import Site

_ANY = 9
"""More dims than any kernel walks."""

#: The fewest dims of a group for which a kernel reads a stride or an inner size, by the end of its name.
_ROW_STRIDES = {"s0": 1, "s3": 2, "s2": 3, "s1": 4}
_COLUMN_STRIDES = {"s4": 1, "s6": 2, "s5": 3}
_ROW_SIZES = {"n3": 2, "n2": 3, "n1": 4}
_COLUMN_SIZES = {"m2": 2, "m1": 3}
_ALONG = {"m": 1, "n": 2, "k": 3}
"""The layout classes of tensors with stride 1 along a group."""
_GROUPS = {"b": "batch", "m": "m", "n": "n", "k": "k"}
_BY_DESCRIPTORS = ("_stream", "_span")
_COORDINATES = ("col_coordinates", "row_coordinates", "group_at")


def is_beyond(site: Site) -> bool:
    """Whether a fault exchanges or drops only sizes and strides of dims that the op does not have."""
    changed, dims = _changed(site), _dims_at(site)
    packed = _packed(site.module)
    names = [name for text in changed for name in re.findall(r"\w+", text)]
    return bool(names and dims) and all(name in packed or _is_beyond(name, dims) for name in names)


def is_of_one_dim(site: Site) -> bool:
    """Whether a fault may leave coordinates as they are, as they are those of one dim at most."""
    dims = _dims_at(site)
    return bool(dims) and min(dims.values()) <= 1 and site.before.startswith(_COORDINATES)


def has_no_batch(site: Site) -> bool:
    """Whether a fault lies in the coordinates of a batch that the op does not have, or in what is counted by it."""
    is_of_batch = re.match(r"\s*(tile_)?batch = ", site.statement) is not None or "batch_size" in site.before
    return dims_of(site.module).get("batch") == 0 and is_of_batch


def are_alike(site: Site) -> bool:
    """Whether a fault exchanges two numbers that are the same: of dims of groups of a product, and layout classes."""
    changed = _changed(site)
    known = {f"{name.upper()}_RANK": 1 for name, count in _dims_at(site).items() if count == 1}
    known |= {f"{name}_layout": _ALONG[group] for name, group, is_lone in _counted(site.module) if is_lone}
    return len(changed) == 2 and known.get(changed[0], 0) == known.get(changed[1], -1)


def is_unit_of_batch(site: Site) -> bool:
    """Whether a fault changes in what inner sizes of a batch come, which one dim has none of."""
    is_unit = site.operator == "constant changed" and site.before == "1"
    counted = re.match(r"\s*batch = group_at\(", site.statement) is not None
    return is_unit and counted and _dims_at(site).get("batch", _ANY) <= 1


def _changed(site: Site) -> list[str]:
    """The elements of a tuple or the arguments of a call that a fault has replaced."""
    try:
        before, after = (ast.parse(text, mode="eval").body for text in (site.before, site.after))
    except SyntaxError:
        return []
    for kind, field in ((ast.Tuple, "elts"), (ast.Call, "args")):
        if isinstance(before, kind) and isinstance(after, kind):
            pairs = zip(getattr(before, field), getattr(after, field), strict=False)
            return [ast.unparse(one) for one, other in pairs if ast.dump(one) != ast.dump(other)]
    return []


def _is_beyond(name: str, dims: dict[str, int]) -> bool:
    """Whether a size or a stride belongs to a dim that the op's groups do not have."""
    end = name.rpartition("_")[2]
    if "rows" in dims:
        for group, strides, sizes in (
            ("rows", _ROW_STRIDES, _ROW_SIZES),
            ("columns", _COLUMN_STRIDES, _COLUMN_SIZES),
        ):
            least = strides.get(end) if "_" in name else sizes.get(name)
            if least is not None:
                return least > dims[group]
    match = re.fullmatch(r"([bmnk])([0-2])", end)
    if match is None or "k" not in dims:
        return False
    least = int(match[2]) + (1 if "_" in name else 2)
    return least > max(dims[_GROUPS[match[1]]], 1 if "_" not in name else 0)


def _dims_at(site: Site) -> dict[str, int]:
    """The most dims of each group where a fault is: what descriptors read has one dim in each group of a product."""
    dims = dims_of(site.module)
    if not site.function.endswith(_BY_DESCRIPTORS):
        return dims
    return {name: min(count, 1) for name, count in dims.items()}


@functools.lru_cache(8)
def dims_of(source: str) -> dict[str, int]:
    """The most dims of each group of a module's kernels; a leading `...` has any number, and so has what divides."""
    found: dict[str, int] = {}
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("rt.RowWalk", "rt.ProductWalk"):
            continue
        names = {"kept": "rows", "reduced": "columns", "batch": "batch", "m": "m", "n": "n", "k": "k"}
        for keyword in call.keywords:
            if keyword.arg in names:
                dims = ast.literal_eval(keyword.value)
                count = _ANY if any("..." in dim or "/" in dim for dim in dims) else len(dims)
                found[names[keyword.arg]] = max(found.get(names[keyword.arg], 0), count)
    return found


@functools.lru_cache(8)
def _packed(source: str) -> frozenset[str]:
    """The strides along the last dims of tensors that one kernel of an op leaves for another, and of positions: 1,
    where a group has no other dim."""
    last = {name: dims[-1] for name, dims in between_kernels(source).items()}
    names = [f"{name}_s4" for name in last if dims_of(source).get("columns") == 1]
    for groups in _lone_dims(source):
        names += [
            f"{name}_{group}0" for name, own in last.items() for group, dim in groups.items() if dim == own
        ]
    return frozenset([*names, *(f"{name}_{group}0" for name, group, _ in _counted(source))])


def _counted(source: str) -> list[tuple[str, str, bool]]:
    """The positions that kernels of products count whose last dim is the only one of its group: their names, that
    group, and whether they have no other dim."""
    found = {dim: group for groups in _lone_dims(source) for group, dim in groups.items()}
    counted = {ast.literal_eval(dims) for dims in re.findall(r"rt\.Access\(None, (\([^()]+\))\)", source)}
    named = [("_".join(("index", *dims)), dims) for dims in sorted(counted) if "..." not in dims]
    return [(name, found[dims[-1]], len(dims) == 1) for name, dims in named if dims[-1] in found]


@functools.lru_cache(8)
def _lone_dims(source: str) -> list[dict[str, str]]:
    """The dims that are the only ones of their groups in the products of a module, by group."""
    return [
        {
            group: dims[0]
            for group, dims in walk.items()
            if group in _ALONG and len(dims) == 1 and dims[0].isidentifier()
        }
        for walk in products_of(source)
    ]


@functools.lru_cache(8)
def products_of(source: str) -> list[dict[str, tuple[str, ...]]]:
    """The dims of each group of the products of a module."""
    return [
        {str(one.arg): ast.literal_eval(one.value) for one in call.keywords if one.arg in _GROUPS.values()}
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "rt.ProductWalk"
    ]


def between_kernels(source: str) -> dict[str, tuple[str, ...]]:
    """The tensors that one kernel of an op leaves for another, which are contiguous, with their dims."""
    return {
        ast.literal_eval(tensor.args[0]): ast.literal_eval(tensor.args[2])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "temporaries"
        for tensor in ast.walk(node.value)
        if isinstance(tensor, ast.Call)
    }
