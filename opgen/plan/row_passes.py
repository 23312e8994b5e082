"""In which order a row kernel reduces: what a row in registers goes through, and the passes over one that is read anew.

In:  m = max[C](x);  s = sum[C](exp(x - m));  y = exp(x - m) / s
Out: two levels, m and then s, for a row in registers; one pass for a row that is read tile by tile: the sum is taken
     against the largest element so far and rescaled when that grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from opgen.ir.nodes import Apply, Graph, Reduce, Ref
from opgen.ir.operands import operands


@dataclass(frozen=True)
class Reduction:
    """A reduction as a kernel carries it out: the value that it gives, its kind, and the value that is reduced.

    Beside the kinds of the language: `squares` is the sum of the squared distances from the mean and `exps` that of
    e^(term - largest term), each taken in the pass that gives the mean or the largest term; a `peak` is the largest
    term as the reduction `source` knows it.
    """

    ref: Ref
    kind: str
    arg: Ref
    source: Ref | None = None


Levels = tuple[tuple[Reduction, ...], ...]


def resident_levels(graph: Graph) -> Levels:
    """The reductions of a row in registers: those of a level need only earlier ones."""
    return _levels(graph, lambda ref, node: Reduction(ref, node.kind, node.arg))


def looped_passes(graph: Graph) -> Levels:
    """The reductions of each pass over a row that does not stay in registers."""
    levels = _levels(graph, lambda ref, node: _in_one_pass(graph, ref, node))
    return tuple(tuple(_known_to_another(one, level) for one in level) for level in levels)


def _known_to_another(one: Reduction, level: tuple[Reduction, ...]) -> Reduction:
    """A largest term that a sum of exponentials in the same pass needs anyway is taken from there."""
    knowing = [other for other in level if other.kind in ("exps", "logsumexp") and other.arg == one.arg]
    return replace(one, kind="peak", source=knowing[0].ref) if one.kind == "max" and knowing else one


def _levels(graph: Graph, carried_out: Callable[[Ref, Reduce], Reduction]) -> Levels:
    level_of: dict[Ref, int] = {}  # of each value: how many levels of reductions it needs
    levels: dict[int, list[Reduction]] = {}
    for ref, value in enumerate(graph.values):
        if not isinstance(value.node, Reduce):
            level_of[ref] = max((level_of[one] for one in operands(value.node)), default=0)
            continue
        reduction = carried_out(ref, value.node)
        level_of[ref] = level_of[reduction.arg] + 1
        levels.setdefault(level_of[ref], []).append(reduction)
    return tuple(tuple(levels[level]) for level in sorted(levels))


def _in_one_pass(graph: Graph, ref: Ref, node: Reduce) -> Reduction:
    """The reduction over what an earlier one reduces already, where it has that form; else as it stands."""
    match graph.values[node.arg].node:
        case Apply(primitive="exp", args=(away,)) if node.kind == "sum":
            source = _away_from(graph, away, "max", node)
            if source is not None:
                return Reduction(ref, "exps", source)
        case Apply(primitive="mul", args=(away, other)) if away == other and node.kind in ("sum", "mean"):
            source = _away_from(graph, away, "mean", node)
            if source is not None:
                return Reduction(ref, "var" if node.kind == "mean" else "squares", source)
        case _:
            pass
    return Reduction(ref, node.kind, node.arg)


def _away_from(graph: Graph, ref: Ref, kind: str, outer: Reduce) -> Ref | None:
    """`x`, where a value is `x` less the `kind` of `x` over the same dims."""
    match graph.values[ref].node:
        case Apply(primitive="sub", args=(source, centre)):
            match graph.values[centre].node:
                case Reduce(kind=found, arg=arg, dims=dims) if (
                    found == kind and arg == source and set(dims) == set(outer.dims)
                ):
                    return source
                case _:
                    return None
        case _:
            return None
