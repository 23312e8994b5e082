"""Moving oracle values between spaces of named dims."""

import pytest
import torch

from tests.behaviour.oracle_package import load

o = load("_oracle")


def test_spread_repeats_each_element() -> None:
    x = o.exact(torch.arange(6.0).reshape(2, 3))
    assert torch.equal(o.spread(x, -1, 2).value, x.value.repeat_interleave(2, -1))
    assert torch.equal(o.spread(x, 0, 3).value, x.value.repeat_interleave(3, 0))


def test_align_permutes_and_drops_dims_of_one_element() -> None:
    x = o.exact(torch.randn(2, 3, 1, 4))
    assert torch.equal(o.align(x, "... M - K", "... K M").value, x.value[:, :, 0].mT)
    assert torch.equal(o.align(x, "B M - K", "B N K M").value, x.value[:, :, 0].mT[:, None])
    assert o.align(o.exact(torch.tensor(2.0)), "M N", "N M").shape == ()
    with pytest.raises(ValueError, match="not in"):
        o.align(x, "B M N K", "B M K")


def test_a_lone_element_is_not_repeated() -> None:
    assert o.spread(o.exact(torch.ones(3, 1)), -1, 4).shape == (3, 1)
    assert o.filled(o.exact(torch.tensor(2.0)), 3, 4).value.sum() == 24


def test_take_gathers_rows_and_gives_zero_outside() -> None:
    table = torch.randn(4, 3)
    ids = torch.tensor([[0, 3, -1], [4, 2, 1]])
    taken = o.take(o.exact(table), "V D", {"V": o.align(o.exact(ids), "...", "... D")}, "... D")
    inside = (ids >= 0) & (ids < 4)
    expected = torch.where(inside[..., None], table[ids.clamp(0, 3)], torch.zeros(()))
    assert torch.equal(taken.value, expected.double())
    assert torch.equal(taken.lo, taken.hi)


def test_take_walks_leading_and_shared_dims_along() -> None:
    x = torch.randn(2, 5, 3)
    at = torch.tensor([2, 0, 1])
    taken = o.take(o.exact(x), "... S D", {"D": o.exact(at)}, "... S D")
    assert torch.equal(taken.value, x[..., at].double())


def test_take_along_two_dims() -> None:
    x = torch.randn(4, 3)
    rows, columns = torch.tensor([[3], [1]]), torch.tensor([0, 2, 3])
    taken = o.take(o.exact(x), "A B", {"A": o.exact(rows), "B": o.exact(columns)}, "M N")
    expected = torch.cat([x[rows, columns[:2]], torch.zeros(2, 1)], 1)
    assert torch.equal(taken.value, expected.double())


def test_take_from_nothing() -> None:
    taken = o.take(o.exact(torch.zeros(0, 3)), "V D", {"V": o.exact(torch.tensor([[1]]))}, "N D")
    assert taken.shape == (1, 3)
    assert not taken.value.any()


def test_take_refuses_open_positions() -> None:
    near = o.exact(torch.tensor([2.0])) / 3.0 * 3.0
    assert not torch.equal(near.lo, near.hi)
    with pytest.raises(ValueError, match="open decisions"):
        o.take(o.exact(torch.zeros(4)), "V", {"V": o.cast(near, torch.int64)}, "N")
