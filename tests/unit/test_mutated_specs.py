"""Mutations of the shipped specs: each gives a build or diagnostics, never another failure."""

from tests.mutate_specs import ends


def test_mutations_build_or_are_refused() -> None:
    found = ends(300, seed=0)
    assert found.keys() == {"built", "refused"}
