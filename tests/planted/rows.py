"""Faults in kernels of rows and of elements that change nothing that is stored, by the masks and reductions there."""

from __future__ import annotations

import ast
import re

from tests.planted.operators import Site, functions

KERNELS = ("_resident", "_looped", "_split")

_IDEMPOTENT = {"max", "min", "any", "all"}
"""Reductions of which an element may be taken several times."""

_LAST = "tl.minimum(first + blocks * COLUMNS, count)"

_UNIT_OF_STRIDES = "16 >> LAYOUT // 100"


def same_stores(site: Site) -> str | None:
    """Why a kernel may read with another mask."""
    if site.operator != "mask exchanged" or "tl.store(" in site.statement:
        return None
    if site.function.endswith("_strided"):
        if site.after == "mask" and _is_only_in("mask_of", site) and _stored(site) == {"mask"}:
            return "what the narrower mask leaves out is not stored"
        return None
    if not site.function.endswith(KERNELS):
        return None
    pair = (site.before, site.after)
    if pair == ("mask", "col_mask") and re.search(r"\b(row|step)_\w+\(", site.statement):
        return "a row that is not there may have any values: they are not stored"
    if site.after == "mask" and "tile_mask(" in site.statement:
        return "what the narrower mask leaves out is not there, or read again"
    if pair == ("col_mask", "mask") and _reads_columns(site) and _stores_rows(site):
        return "a row that is not there may have any values: they are not stored"
    return None


def same_reductions(site: Site) -> str | None:
    """Why reductions may take rows that are not there: rows do not meet, and what is stored has its own mask."""
    pair = (site.before, site.after)
    if site.operator != "term dropped" or pair != ("row_mask & col_mask", "col_mask"):
        return None
    reduced = [
        one
        for node in ast.walk(ast.parse(site.owner))
        if isinstance(node, ast.Call) and re.match(r"(row|step)_\w+$", ast.unparse(node.func))
        for one in ast.walk(node)
    ]
    named, in_reductions = (
        sum(isinstance(one, ast.Name) and one.id == "mask" and isinstance(one.ctx, ast.Load) for one in nodes)
        for nodes in (ast.walk(ast.parse(site.owner)), reduced)
    )
    if named == in_reductions and all(mask.startswith("row_mask") for mask in _stored(site)):
        return "a row that is not there may have any values: they are not stored"
    return None


def _is_only_in(function: str, site: Site) -> bool:
    """Whether the text of a fault is read in the calls of one function alone, in its statement."""
    inside = re.compile(rf"\b{function}\([^()]*\)")
    return bool(inside.search(site.statement)) and not re.search(
        rf"\b{site.before}\b", inside.sub("", site.statement)
    )


def _reads_columns(site: Site) -> bool:
    """Whether a tensor is read that does not move along the rows, with the mask of the columns."""
    return bool(re.search(r"= tl\.load\(\s*\w+_ptr \+ \w+,\s*mask=col_mask\b", site.statement))


def _stored(site: Site) -> set[str]:
    """The masks of all that a kernel stores."""
    stores = [
        node
        for node in ast.walk(ast.parse(site.owner))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.store"
    ]
    return {
        next((ast.unparse(one.value) for one in store.keywords if one.arg == "mask"), "") for store in stores
    }


def _stores_rows(site: Site) -> bool:
    """Whether all that a kernel stores lies in rows that are there."""
    return all(re.match(r"(row_)?mask\b", mask) for mask in _stored(site))


def same_extremes(site: Site) -> str | None:
    """Why a reduction may take other elements, or some of them twice."""
    if site.operator == "neutral element changed" and site.before == "float('-inf')" and _is_of_sizes(site):
        return "absolute values are never below 0, and rows without any are refused"
    if site.operator == "bound dropped" and (site.before, site.after) == (_LAST, "count"):
        kinds = set(re.findall(r"\bmerge_(\w+)\(", site.owner))
        if kinds and kinds <= _IDEMPOTENT and "written=True" not in site.module:
            return (
                "pieces overlap: an element counts once, however often it is taken, and is stored as the same"
            )
    return None


def _is_of_sizes(site: Site) -> bool:
    """Whether a largest value begins there, of absolute values of at least one element."""
    begun = re.match(r"\s*(\w+) = (tl\.full|pieces_of)\(", site.statement)
    if begun is None:
        return False
    name = begun[1]
    merged = set(re.findall(r"(\w+) = merge_max\(", site.owner))
    terms = [one for key, one in functions(site.module).items() if key.endswith(f"_{name}_terms")]
    refused = re.search(r"nonempty=\(rt\.Nonempty\(.max.", site.module)
    return merged == {name} and bool(refused) and len(terms) == 1 and _gives_size(terms[0])


def _gives_size(function: ast.FunctionDef) -> bool:
    """Whether a device function returns an absolute value."""
    last = function.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.abs"


def same_unit(site: Site) -> str | None:
    """Why the hundreds of a layout may be counted otherwise, where rows that do not move return before."""
    if (site.function, site.before) != ("row_offsets", "100") or not site.line_text.endswith(
        _UNIT_OF_STRIDES
    ):
        return None
    moving = [100 * shift + 10 * rows + cols for shift in range(5) for rows in (1, 2, 3) for cols in range(3)]
    if all(layout // 100 == layout // int(site.after) for layout in moving):
        return (
            "of every layout that moves along the rows, and so has a tens digit, it gives the same hundreds"
        )
    return None


def same_in_tile(site: Site) -> str | None:
    """Why another of a tile's rows may say where all of them lie."""
    if (site.function, site.condition, site.operator) != ("row_offsets", "KIND == 3", "function exchanged"):
        return None
    return "the rows of a tile lie in one dim there, along which the tensor does not move: all are equal"


def are_summed_over(site: Site) -> bool:
    """Whether the columns of a kernel of products are of dims that another kernel of the op sums over."""
    number = re.search(r"_(\d+)_tiles$", site.function)
    walks = _walks(site.module)
    own = walks.pop(f"_WALK_{number[1]}", {}) if number else {}
    summed = {dim for walk in walks.values() for group in ("reduced", "k") for dim in walk.get(group, ())}
    return bool(own.get("n")) and summed.issuperset(own["n"])


def _walks(module: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """The dims in each group of a module's walks, by name."""
    found = {}
    for node in ast.parse(module).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, keywords=keywords)):
                if ast.unparse(function) in ("rt.ProductWalk", "rt.RowWalk"):
                    groups = [one for one in keywords if one.arg in ("n", "k", "reduced")]
                    found[name] = {str(one.arg): ast.literal_eval(one.value) for one in groups}
    return found


def is_joined_early(behind: str) -> bool:
    """Whether a statement behind a loop joins lanes that come to the same if they are joined in each step, too."""
    joined = re.search(r"\bmerge_(\w+)\(", behind)
    return joined is not None and joined[1] in _IDEMPOTENT


def is_bound_of_shares(site: Site) -> bool:
    """Whether quotients by a share of a row's largest size are bounded by the number of shares."""
    bound = re.escape(site.before)
    return (
        site.operator == "constant changed"
        and re.search(rf"\bclamp\(.*, -{bound}, {bound}\)", site.statement) is not None
        and re.search(rf" scale = div\(maximum\(max0, .*\), tl.full\(\[\], {bound}, ", site.module)
        is not None
    )


def is_of_counted(site: Site) -> bool:
    """Whether terms that are 1 where a condition holds take the place of the condition, or of the mask of a sum."""
    if site.operator not in ("arguments swapped", "function dropped"):
        return False
    named = re.findall(r"\b_\w+_terms\b", site.before)
    return len(named) == 1 and _counts(named[0], site.module)


def is_of_a_count(site: Site) -> bool:
    """Whether a formula takes the largest of a number and of the sum of such terms."""
    op = re.match(r"(_\w+)_[a-z]+$", site.function)
    operands = re.fullmatch(r"maximum\((\w+), [0-9.]+\)", site.before)
    return op is not None and operands is not None and _counts(f"{op[1]}_{operands[1]}_terms", site.module)


def _counts(terms: str, module: str) -> bool:
    """Whether a device function gives 1 where a condition holds, and else 0."""
    gives = r"return tl\.where\((\w+), tl\.full\(\[\], 1\.0, \S+\), tl\.full\(\[\], 0\.0, \S+\)\)"
    function = functions(module).get(terms)
    return function is not None and re.fullmatch(gives, ast.unparse(function.body[-1])) is not None


def is_of_square(site: Site) -> bool:
    """Whether the sides of a difference are exchanged that is squared."""
    if site.operator not in ("operands swapped", "arguments swapped"):
        return False
    named = re.match(r"_\w+_terms\b", site.before)
    terms = functions(site.module).get(named[0] if named else site.function)
    if terms is None or not terms.name.endswith("_terms"):
        return False
    body = "; ".join(ast.unparse(one) for one in terms.body if not isinstance(one, ast.Expr))
    return re.fullmatch(r"(\w+) = \w+ - \w+; return \1 \* \1", body) is not None


def is_of_first_mean(site: Site) -> bool:
    """Whether lanes begin with another mean, or pieces that are not there have another one."""
    begun = re.match(r"\s*(\w+)_mean = (tl\.full|pieces_of)\(", site.statement)
    return begun is not None and site.before == "0.0" and f"{begun[1]}_squares = merge_squares(" in site.owner


def is_of_no_first(site: Site) -> bool:
    """Whether columns are counted from the first of a row, which is 0."""
    return (site.before, site.after) == ("start - first", "start") and "\n    first = 0\n" in site.owner
