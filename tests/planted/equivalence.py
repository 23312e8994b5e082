"""Rules by which a fault cannot change a value, each with its reason.

A rule reads the site and the syntax trees around it. For dropped conversions, the results of calls decide.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable

from opgen.dtypes import DTYPES
from tests.planted import narrowing, products, ranks, reductions, rows, statements, symmetry
from tests.planted.operators import Site

NEARLY = 8
"""Units in the last place of f32 between two forms of one function, of which a comparison chooses the better."""

_SIZE_IN_UNITS = re.compile(r"rt\.(in_units|unit)\(\w+\.size\(-\d+\)\)")
"""The size of a gathered dim, below which positions are inside; a dropped function makes it larger."""

_SHARES = "no element of a row comes to more shares of the largest one than it has itself"

_WIDENED_AGAIN = "the narrower type has the number, and the operand that it meets widens it"

#: Dropped conversions that may change no value, by a pattern of what was written. The results of many calls, the same
#: bit for bit, show whether they do not.
_CONVERSIONS = {
    r"\.(float32|float64)\)$": "the operations that take the value widen it by themselves",
    r"^(\w+ = )?rt\.eager\.scalar\(": "PyTorch takes a number beside a tensor in the tensor's type",
    r"^tl\.load\(high\)": "a 0-d tensor for a scalar of 64 bits has as many, or the operations widen it",
    r"^(tl\.full\(\[\]|scalar)": "an operand gives its type to a plain number beside it",
    r"^index_\w+\.to\(tl\.int64\)$": "where 32 bits are too few for a position, the tile has 64 already",
    r"^position\.to\(tl\.int64\)$": "the place that it may take has 64 bits",
    r"\.to\(tl\.int32\)$": "the other operand of the shift gives it 32 bits",
    r"\.dtype\.element_ty\)$": "a store converts to the element type of its pointer by itself",
    r"^rt\.f8\(": "a tensor of f8e4m3 converts by itself where the device has the type; elsewhere no kernel compiles",
    r"^to_int\(": "a store converts to the element type of its pointer by itself",
    r"^rt\.eager\.cast\(": "a result is converted to its element type at the end",
    r"^tl\.cast\((count|UNIT|size), ": "the other factor has as many bits",
    r"^tl\.cast\(n[01], position\.dtype\)$": "a dim inside a group has no more elements than 32 bits count in any test",
    r"^tl\.full\(\(1, 1\), True": "the mask that it meets is as large as the tile",
    r"^(left|right)\.to\(total\.dtype\)$": "the other factor has the type of the sums",
    r"^tl\.where\(low == 127, ": "both choices are of f16",
    r"^(\w+) = tl\.cast\(\1, ": "the operations that take the value widen it by themselves",
}


#: What holds of faults that cannot change a value, and why they cannot.
_RULES: tuple[tuple[Callable[[Site], bool], str], ...] = (
    (
        lambda site: site.function.startswith("_CONFIGS"),
        "figures of blocks: any that can be launched give the same values, and the tests force each config",
    ),
    (
        lambda site: (
            site.operator == "function dropped" and bool(re.fullmatch(r"via\w*\(\w+\)", site.before))
        ),
        "the wrapper shows a launch to PyTorch's tracing; without tracing it is the kernel itself",
    ),
    (
        lambda site: site.operator == "arguments swapped" and symmetry.is_symmetric(site),
        "the function that is called is symmetric in the two arguments",
    ),
    (
        lambda site: site.operator == "arguments swapped" and symmetry.is_of_one_size(site),
        "both arguments are of the size of one dim",
    ),
    (
        lambda site: site.operator == "arguments swapped" and symmetry.is_of_like_inputs(site),
        "the two tensors are alike in type and dims, and in all formulas",
    ),
    (symmetry.is_same_place, "the tensor has two dims"),
    (rows.is_of_square, "the difference is squared"),
    (
        lambda site: site.operator == "constant changed" and rows.is_of_first_mean(site),
        "the first term of a lane takes its place, and a lane or a piece without any counts as none",
    ),
    (
        lambda site: site.operator == "term dropped" and rows.is_of_no_first(site),
        "the first column of a row is 0",
    ),
    (
        lambda site: site.operator == "update dropped" and symmetry.is_of_identity(site),
        "the function that is called gives back its arguments",
    ),
    (
        lambda site: site.operator == "function dropped" and symmetry.is_dropped_identity(site),
        "the function that is called gives back its arguments",
    ),
    (
        lambda site: site.operator == "arguments swapped" and symmetry.is_of_sum(site),
        "both are terms of one sum, which may be taken in any order within the bounds of results",
    ),
    (
        lambda site: site.operator == "flag changed" and site.role == "flatten",
        "it lets the loads of a tile run ahead into the next",
    ),
    (ranks.is_beyond, "the op has too few dims there for kernels to read it"),
    (
        ranks.are_alike,
        "the two numbers are the same: of dims of groups that have one, or along which a layout runs",
    ),
    (
        lambda site: site.operator == "arguments swapped" and symmetry.is_own_inverse(site),
        "two dims change places, there and back",
    ),
    (ranks.is_unit_of_batch, "one dim has no inner sizes"),
    (products.is_of_absent_dim, "what is read there belongs to a dim that a group of one does not have"),
    (products.is_never_turned, "it is contiguous along k, and has no batch"),
    (
        statements.is_same,
        "every f16 and bf16 number, and many f32 ones, give the same in the statement, zeros of either sign alike",
    ),
    (
        lambda site: site.operator == "NaN flag dropped" and rows.is_of_a_count(site),
        "a count is never NaN",
    ),
    (
        lambda site: "launch.library_sums(" in site.statement and ' library"' not in site.module,
        "no config takes the vendor's product",
    ),
    (
        lambda site: site.operator == "constant changed" and "launch.partial_sums(" in site.statement,
        "more memory than kernels take for their sums",
    ),
)


def by_rule(site: Site) -> str | None:
    """Why a fault is none, or None where no rule says so."""
    if site.operator == "flag changed" and site.function == "_OPERATOR":
        return _always_contiguous(site) if site.role == "contiguous" else _never_aliased(site)
    return (
        next((why for holds, why in _RULES if holds(site)), None)
        or products.why_same(site)
        or reductions.why_same(site)
        or rows.same_stores(site)
        or rows.same_reductions(site)
        or rows.same_extremes(site)
        or rows.same_unit(site)
        or rows.same_in_tile(site)
    )


def unseen(site: Site) -> str | None:
    """Why no test in the interpreter can see a fault, or None where one should."""
    if site.condition == "not INTERPRETED" or _is_for_compiled_kernels(site):
        return "compiled kernels alone run it"
    if site.operator == "function dropped" and site.before.startswith("float("):
        return "the interpreter reads the text as the number; no kernel compiles with it"
    if site.operator == "repeated in the loop" and re.search(r"\bmerge_exps\(", _behind(site)):
        return (
            "a compiled loop refuses lanes whose number changes; in the interpreter they hold the same sums"
        )
    if site.operator == "repeated in the loop" and rows.is_joined_early(_behind(site)):
        return "a compiled loop refuses lanes whose number changes; in the interpreter they come to the same"
    if site.function == "OUTER" or (site.function == "product_zeros" and site.operator == "stride dropped"):
        return "a compiled loop refuses sums whose number changes; in the interpreter they come to the same"
    if site.role == "max_num_imprecise_acc":
        return "the interpreter sums f8 in f32 in any case"
    if site.is_of_width:
        return _beyond_tests(site)
    return None


def _is_for_compiled_kernels(site: Site) -> bool:
    """Whether a device function is named only where the interpreter does not come."""
    if not site.jitted:
        return False
    tree = ast.parse(site.module)
    branches = [
        statement
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "INTERPRETED"
        for statement in node.orelse
    ]
    found, named = (
        sum(
            isinstance(node, ast.Name) and node.id == site.function
            for part in parts
            for node in ast.walk(part)
        )
        for parts in (branches, [tree])
    )
    return 0 < found == named


def _beyond_tests(site: Site) -> str | None:
    """Why no test comes to figures for which a type of 64 bits is needed."""
    if site.function.endswith("_finish") and "m_size" in site.statement:
        return "it takes partial sums of more elements than 32 bits count, in 16 GiB of memory"
    if site.function.endswith("_tiles") and "k_size" in site.line_text:
        return "it takes a sum over more positions than 32 bits count"
    if site.function.endswith("_tiles") and "n_size" in site.line_text and rows.are_summed_over(site):
        return "it takes rows of more elements than 32 bits count, over which another kernel sums"
    return None


def _behind(site: Site) -> str:
    """The statement behind a loop."""
    for node in ast.walk(ast.parse(site.owner)):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for one, other in itertools.pairwise(block if isinstance(block, list) else []):
                if isinstance(one, ast.For) and one.lineno - 1 == site.line:
                    return ast.unparse(other)
    return ""


def reasons(site: Site) -> set[str]:
    """All that the rules may say of a fault."""
    return {
        reason for rule in (by_rule, unseen, by_results, by_exhaustion) if (reason := rule(site)) is not None
    }


def by_results(site: Site) -> str | None:
    """Why a fault is none if it leaves the results of many calls as they are, or None where that would not do."""
    reason = _of_same_results(site)
    return None if reason is None else f"all results are the same: {reason}"


def _of_same_results(site: Site) -> str | None:
    if ranks.is_of_one_dim(site):
        return "the op has one dim there, whose position is its coordinate"
    if ranks.has_no_batch(site):
        return "the op has no dims of a batch, which is one at 0"
    if site.function.endswith(rows.KERNELS) or site.statement.lstrip().startswith("for stage in range("):
        return _in_rows(site)
    if site.function.startswith(("merge_", "_takes_place")):
        return _in_reductions(site)
    if site.function.endswith(("_tiles", "_stream", "_finish")):
        return _in_products(site)
    if site.function == "reference" and (reason := _in_reference(site)) is not None:
        return reason
    if narrowing.is_widened_again(site):
        return _WIDENED_AGAIN
    if narrowing.is_converted_back(site):
        return "f16 has every number of f8, to which it is converted back"
    if site.function == "mask_of" and ("LAYOUT & 7" in site.before or site.before == "7"):
        return "an unknown class has the mask of the whole tile, which is right for any tensor, only larger"
    if rows.is_bound_of_shares(site):
        return _SHARES
    if (
        site.role == "other"
        or (site.before.startswith("mask & inside(") and site.after == "mask")
        or (site.operator == "function dropped" and _SIZE_IN_UNITS.fullmatch(site.before))
    ):
        return "no call computes a position outside, so that nothing ever stands in for what is read there"
    return _of_conversions(site)


def _in_reference(site: Site) -> str | None:
    """The same for the eager reference."""
    if site.operator == "strides swapped":
        return "tensors bind the sizes of dims by name, and no size that is used depends on their order"
    if site.role == "contiguous":
        return "it decides the strides of what the eager reference returns, and no value"
    if site.role == "keepdim":
        return "what lays it over the dims of a result takes it without the dim, too"
    if site.operator == "sign or negation dropped" and symmetry.is_middle(site):
        return "the tensors have as many dims before it as from it on"
    return None


def _of_conversions(site: Site) -> str | None:
    if not site.operator.endswith("dropped"):
        return None
    return next((why for pattern, why in _CONVERSIONS.items() if re.search(pattern, site.before)), None)


def _in_reductions(site: Site) -> str | None:
    """The same for a device function that joins lanes, or fills them."""
    if site.operator == "comparison changed" and site.before == "position < place":
        return "a lane's positions ascend, and the place that it begins with is above all of them"
    if site.operator == "branches swapped" and site.before.startswith("if INTERPRETED"):
        return "the interpreter then comes to the same by the way of compiled kernels"
    if site.operator == "results swapped" and "tl.split(" in site.statement:
        return "the halves are multiplied, in whatever order"
    if site.condition == "INTERPRETED" and "lanes == lanes" in site.statement:
        return "where a lane is NaN, so is the result, whatever stands in for it"
    return _of_conversions(site)


def _in_products(site: Site) -> str | None:
    """The same for a kernel of products."""
    if site.operator == "choice dropped" and site.before.startswith("tl.where("):
        return "outside, an operand is computed from zeros, of which it is 0"
    if site.role == "other":
        return "outside, the other operand is 0, and rows and columns that are not there are not stored"
    if site.operator == "constant changed" and "product_tile(" in site.statement:
        return "the tiles come in another order"
    if narrowing.is_widened_again(site):
        return _WIDENED_AGAIN
    return _of_conversions(site)


def _in_rows(site: Site) -> str | None:
    """The same for a kernel of rows."""
    if site.operator in ("mask exchanged", "term dropped") and site.after == "col_mask":
        return "a row that is not there may have any values: they are not stored"
    if rows.is_of_counted(site):
        return "a condition counts as 1, and as the mask of 1 just as well"
    if site.operator == "term dropped" and site.before == f"{site.after} & (piece == 0)":
        return "the programs of all pieces store the same there"
    begins = site.statement.lstrip().partition(" = ")[2].startswith("tl.full(")
    if site.operator in ("type narrowed", "stride dropped") and begins:
        return "the first step widens it; a compiled loop refuses it"
    if site.operator == "constant changed" and re.match(r"\s*\w+_total = tl.full\(.* 0\.0,", site.statement):
        return "the first step multiplies it with e^-inf"
    if "tl.num_programs(" in site.statement and site.operator == "constant changed":
        return "some tiles are computed again, to the same values"
    if site.function.endswith("_split") and "tl.num_programs(" in site.statement:
        return "each program of a launch in pieces has one tile of rows"
    if site.function.startswith("_launch"):
        return "a stage behind the last one stores nothing"
    if site.before == "COLUMNS + 3":
        return "the columns of a tile are a power of two, and 16 or more"
    if site.before.startswith("STAGE > ") and site.after.startswith("STAGE >= "):
        return (
            "what a stage joins before all of it is there is used in later stages alone, which join it anew"
        )
    if (
        re.match(r"\s*(\w+)_total = pieces_of\(.* 0\.0, ", site.statement)
        and "_peak = pieces_of(" in site.owner
    ):
        return (
            "a piece that is not there has a largest term of -inf, so that its sum is multiplied with e^-inf"
        )
    return _of_conversions(site)


def by_exhaustion(site: Site) -> str | None:
    """Why a fault is none if results stay as they are for every number of 16 bits, or None where that would not do."""
    if site.function.endswith("_formula") or site.function == "reference":
        kind = f"(up to {NEARLY} units in the last place) the same" if site.role == "compared" else "the same"
        return f"every f16 and bf16 number, and millions of f32 ones, give {kind} result beside any others"
    return None


def _never_aliased(site: Site) -> str | None:
    """A tensor that is said to be read across elements is copied where it is written memory, too.

    That can matter for a gathered tensor only, of the element type of a written one: another type is never the same
    view, and a tensor that broadcasts has the written one's shape only where it does not broadcast.
    """
    call = next(node for node in ast.walk(ast.parse(site.source)) if _assigns(node, "_OPERATOR"))
    tensors = [node for node in ast.walk(call) if isinstance(node, ast.Call) and _is(node, "rt.Tensor")]
    lost = [one for one in tensors if _flag(one, "across") is False]
    if len(lost) != 1 or _flag(lost[0], "written"):
        return None
    results = next(
        one.value for one in ast.walk(call) if isinstance(one, ast.keyword) and one.arg == "results"
    )
    written = [one for one in tensors if one in ast.walk(results) or _flag(one, "written")]
    name, element = (ast.literal_eval(one) for one in lost[0].args[:2])
    types = _types(call, element)
    if all(types.isdisjoint(_types(call, ast.literal_eval(one.args[1]))) for one in written):
        return "a tensor of another element type is never the view that is written"
    if re.search(rf"rt\.Access\('{name}', \([^)]*\), gathered=", site.source):
        return None
    dims = {ast.unparse(one.args[2]) for one in (*written, lost[0])}
    kernels = re.findall(r"\brt\.(\w*Kernel)\(", site.source)
    if kernels == ["RowKernel"] and len(dims) == 1:
        return "a program has read its row before it writes any of it, but for the tile that it reads right before"
    return "a broadcast tensor has a written one's shape only where it does not broadcast"


def _always_contiguous(site: Site) -> str | None:
    """The strides of a result are those of tensors that have all of its dims."""
    call = next(node for node in ast.walk(ast.parse(site.module)) if _assigns(node, "_OPERATOR"))
    dims = {
        keyword.arg: [
            {*ast.literal_eval(one.args[2])}
            for one in ast.walk(keyword.value)
            if isinstance(one, ast.Call) and _is(one, "rt.Tensor")
        ]
        for keyword in ast.walk(call)
        if isinstance(keyword, ast.keyword) and keyword.arg in ("inputs", "results")
    }
    if all(len(own) == 1 and "..." not in own for own in dims["results"]):
        return "a new tensor of one dim is contiguous"
    if any(own <= given for own in dims["results"] for given in dims["inputs"]):
        return None
    return "no tensor has all dims of a result, which is contiguous then"


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name


def _is(call: ast.Call, name: str) -> bool:
    return ast.unparse(call.func) == name


def _flag(call: ast.Call, name: str) -> object:
    """A keyword's value, None where it is not given."""
    return next((ast.literal_eval(one.value) for one in call.keywords if one.arg == name), None)


def _types(operator: ast.AST, element: str) -> set[str]:
    """The names of the types that an element type may be."""
    variables = [
        one.value for one in ast.walk(operator) if isinstance(one, ast.keyword) and one.arg == "variables"
    ]
    for table in variables:
        assert isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == element:
                return set(re.findall(r"torch\.\w+", ast.unparse(value)))
    return {f"torch.{DTYPES[element].torch}"}
