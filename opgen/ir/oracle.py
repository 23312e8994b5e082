"""Checks of `reference "python"`: the text is one Python expression over the parameters, torch, F and math."""

from __future__ import annotations

import ast as python
import builtins

from opgen.diagnostics import Diagnostics, did_you_mean
from opgen.ir.signature import Signature
from opgen.syntax import ast

_MODULES = ("torch", "F", "math")


def oracle_text(signature: Signature, diagnostics: Diagnostics, statement: ast.ReferenceText) -> str | None:
    """The expression of a `reference` statement; None after a mistake (reported)."""
    text = statement.text.value.strip()
    try:
        tree = python.parse(f"(\n{text}\n)", mode="eval")
        tree = python.parse(text, mode="eval") if "\n" not in text else tree
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        diagnostics.error("OPG650", "the reference is no Python expression", statement.text.span)
        return None
    unknown = _unknown_names(tree, signature)
    for name in unknown:
        known = (*signature.names(), *signature.broken, *_MODULES)
        advice = did_you_mean(name, known) or "it sees the parameters, `torch`, `F` and `math`"
        diagnostics.error(
            "OPG651", f"unknown name `{name}` in the reference", statement.text.span, help=advice
        )
    return None if unknown or not _check_count(signature, diagnostics, statement, tree) else text


def _unknown_names(tree: python.Expression, signature: Signature) -> tuple[str, ...]:
    names = [node for node in python.walk(tree) if isinstance(node, python.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, python.Store)}
    bound |= {node.arg for node in python.walk(tree) if isinstance(node, python.arg)}
    known = {*signature.names(), *signature.broken, *_MODULES, *dir(builtins), *bound}
    return tuple(dict.fromkeys(node.id for node in names if node.id not in known))


def _check_count(
    signature: Signature, diagnostics: Diagnostics, statement: ast.ReferenceText, tree: python.Expression
) -> bool:
    """Whether a tuple that is written out has one entry for each result."""
    inouts = [param for param in signature.params if getattr(param, "inout", False)]
    wanted = len(signature.results) or len(inouts)
    if signature.broken or not isinstance(tree.body, python.Tuple) or len(tree.body.elts) == wanted:
        return True
    if any(isinstance(element, python.Starred) for element in tree.body.elts):
        return True
    message = f"the reference gives {len(tree.body.elts)} results, and `{signature.name}` has {wanted}"
    diagnostics.error("OPG652", message, statement.text.span)
    return False
