"""A product's plan as stable text: what is multiplied, and for each class of types what fits, is chosen and is not."""

from __future__ import annotations

from collections.abc import Iterator

from opgen.plan.model import BEYOND, Product, ProductBand, ProductClass, ProductConfig, ProductPlan, Rejection

_STORED = {"f8e4m3": "as it is stored where the target has the type, else as exact f16"}


def product_lines(kernel: ProductPlan) -> Iterator[str]:
    """The lines of a product behind its accesses."""
    for product in kernel.products[0]:
        yield f"  {_product(product)}"
    yield f"  an element of the result takes about {kernel.operations} instructions beside the products"
    for one in kernel.classes:
        yield from (f"  {line}" for line in _class(one))


def sides_text(kernel: ProductPlan) -> str:
    """The dims of a product by what they are."""
    parts = [
        f"{name} [{', '.join(map(str, dims))}]"
        for name, dims in (
            ("batches", kernel.sides.batch),
            ("rows", kernel.sides.m),
            ("columns", kernel.sides.n),
            ("summed", kernel.sides.k),
        )
        if dims
    ]
    return ", ".join(parts)


def _product(product: Product) -> str:
    left, right = (one.tensor or f"%{one.ref}" for one in (product.left, product.right))
    element = product.left.element
    how = f" ({_STORED[element.dtype.name]})" if element.dtype.name in _STORED else ""
    return f"%{product.ref}: {left} by {right}, multiplied in {element}{how}, summed in {product.sums}"


def _class(one: ProductClass) -> Iterator[str]:
    yield f"{_CLASS_NAMES[one.name]}: {one.searched} configs searched"
    for band in one.bands:
        yield f"  {_band(band)}"
    for rejection in one.rejected:
        yield f"  {_rejection(rejection)}"


_CLASS_NAMES = {
    "half": "f16 and bf16",
    "f32": "f32",
    "f64": "f64",
    "i8": "i8",
    "f8": "f8e4m3",
    "int": "types without a matrix unit",
}


def _band(band: ProductBand) -> str:
    (first, time), *others = band.configs
    rows = f"up to {band.m} rows" if band.m < BEYOND else "more rows"
    columns = f", {band.n} columns" if band.n < BEYOND else ""
    depth = f", k up to {band.k}" if band.k < BEYOND else ""
    then = "".join(f"; then {config_text(config)} ({other:.1f})" for config, other in others[:2])
    size = "x".join(map(str, band.at))
    vendor = f"; the vendor's where waves idle for more than {band.idle} positions of k" if band.idle else ""
    narrow = f"; {config_text(band.narrow)} where its waves take less" if band.narrow else ""
    return f"{rows}{columns}{depth}: {config_text(first)}, {time:.1f} us predicted at {size}{then}{narrow}{vendor}"


def config_text(config: ProductConfig) -> str:
    """A config in a few words."""
    words = [
        f"{config.form} through {config.strategy}",
        " x ".join(map(str, config.tile)),
        f"{config.warps} warps",
    ]
    if config.form in ("dot", "swapped"):
        words.append(f"{config.stages} stages")
    if config.split > 1:
        words.append(f"k in {config.split} pieces")
    if config.halves:
        words.append("written in halves")
    if config.precision != "ieee":
        words.append(config.precision)
    return ", ".join(words)


def _rejection(one: Rejection) -> str:
    example = config_text(one.example)
    return f"rejected for {one.reason}: {one.count}, such as {example}, with {one.figure} of {one.limit}"
