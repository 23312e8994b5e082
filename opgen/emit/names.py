"""Names of generated code: legal, and never one that the user's spec, Python or a kernel launch needs."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from opgen.primitives import PRIMITIVES

#: What every generated module imports.
MODULE_NAMES = ("torch", "triton", "tl", "rt")
#: What launchers name themselves, beside their parameters.
LAUNCHER_NAMES = ("range", "kernel", "arguments", "stage", "partial", "spanning", "descriptors")

#: Functions of the package's runtime that kernels call, beside those that stand for primitives. PyTorch's compiler
#: finds a kernel's helpers by their names in its module, so they are imported one by one.
_HELPERS = (
    "coordinates decode_f8e4m3 decode_f8e5m2 encode_f8e4m3 encode_f8e5m2 inside mask_of nibble offsets round_to "
    "scalar scalar64 step tile to_int uniform "
    "along_batch along_k along_m along_n depth_inside group_at multiplied operand_f8e4m3 operand_f8e5m2 part_of "
    "product_columns product_depths product_piece product_rows product_sum product_tile product_zeros "
    "partial_sum store_partial spanned_right streamed_left streamed_right"
)
_ROW_HELPERS = (
    "below block_at col_coordinates col_offsets exps_below extent lane_counts log_of_exps mean_of merge_all merge_any "
    "merge_argmax merge_argmin merge_exps merge_max merge_min merge_prod merge_squares merge_sum piece_counts "
    "pieces_of positions_at row_all row_any row_argmax row_argmin row_coordinates row_exps row_max row_min "
    "row_offsets row_prod row_squares row_sum step_all step_any step_argmax step_argmin step_exps step_max step_min "
    "step_prod step_squares step_sum tile_mask"
)
DEVICE_FUNCTIONS = frozenset(
    {*_HELPERS.split(), *_ROW_HELPERS.split()}
    | {row.triton for row in PRIMITIVES.values() if row.triton.isidentifier()}
)

#: Words that mean something to the code around them: modules of generated files, and what a launch accepts.
RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *MODULE_NAMES, *DEVICE_FUNCTIONS}
    | {"self"}
    | {"num_warps", "num_stages", "num_ctas", "grid", "warmup", "maxnreg", "debug", "launch_cooperative_grid"}
)


#: The sizes of the space that a strided kernel walks, and what divides by its column tiles and by n1 to n4.
SPACE = ("n_rows", "n_cols", "n1", "n2", "n3", "n4", "n5", "by0", "by1", "by2", "by3", "by4")
#: Names that every kernel has.
KERNEL_NAMES = frozenset(
    {*SPACE, "numel", "program", "at", "mask", "rows", "cols", "inside", "row_mask", "col_mask"}
    | {"WIDE", "BLOCK", "RANK", "UNIT", "ROWS", "COLUMNS"}
)
#: Names that a product's kernels have besides.
PRODUCT_NAMES = frozenset(
    (
        "batch_size m_size n_size k_size b0 b1 m0 m1 n0 n1 k0 k1 batch m n cols m_ok n_ok k_left k_right k_left_ok "
        "k_right_ok left_depth right_depth part place first last start tiles late tile_batch tile_m tile_n m_tiles "
        "n_tiles partial_ptr half both right_desc right_tiles "
        "M_UNIT N_UNIT K_UNIT BATCH_RANK M_RANK N_RANK K_RANK FORM BLOCK_M BLOCK_N BLOCK_K EVEN GROUP SPLIT PARTS "
        "PRECISION BATCHED PROGRAMS HALVES LEFT_TURNED RIGHT_TURNED FIRST"
    ).split()
)
#: The sizes of the rows and of the columns that a row kernel walks.
ROW_SPACE = ("n_rows", "n1", "n2", "n3", "n_cols", "m1", "m2")
#: Names that a row kernel's forms have besides.
ROW_NAMES = frozenset(
    (
        "m1 m2 row_tile tiles row_at col_at count first last start piece splits blocks "
        "ROW_RANK COL_RANK ROW_UNIT FULL STAGES STAGE SPLITS"
    ).split()
)
#: Names that references give to what they work with.
REFERENCE_NAMES = frozenset({"device", "bound"})


def type_name(variable: str | None) -> str:
    """A type variable's name in code; empty for none."""
    if variable is None:
        return ""
    taken = RESERVED | KERNEL_NAMES | PRODUCT_NAMES | ROW_NAMES | REFERENCE_NAMES
    return f"{variable}_" if variable in taken else variable


def ascii_name(name: str) -> str:
    """A name for where PyTorch or a GPU assembler takes ASCII alone."""
    return name.encode("ascii", "backslashreplace").decode().replace("\\", "_")


def module_name(op: str) -> str:
    """The module that an op is in: its file's name stands in what GPU assemblers read, and they take ASCII alone."""
    return op if op.isascii() else f"op{ascii_name(op)}"


class Names:
    """Hands out names that differ from all taken before; a taken one gets underscores behind it."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted_`, `wanted__`, … where that is taken."""
        name = wanted
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def stem(self, wanted: str, endings: Iterable[str]) -> str:
        """`wanted`, with underscores behind it where it is taken with one of the endings; takes it with all of them."""
        stem = wanted
        while any(stem + ending in self._taken for ending in endings):
            stem += "_"
        self._taken |= {stem + ending for ending in endings}
        return stem

    def numbered(self, stem: str) -> str:
        """The first of `stem0`, `stem1`, … that is free."""
        number = 0
        while f"{stem}{number}" in self._taken:
            number += 1
        return self.fresh(f"{stem}{number}")

    def copy(self) -> Names:
        return Names(self._taken)
