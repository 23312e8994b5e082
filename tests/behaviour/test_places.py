"""Moving oracle values between spaces of named dims."""

import pytest
import torch

from tests.behaviour.oracle_package import load

o = load("_oracle")


def test_spread_repeats_each_element() -> None:
    x = o.exact(torch.arange(6.0).reshape(2, 3))
    assert torch.equal(o.spread(x, -1, 2).value, x.value.repeat_interleave(2, -1))
    assert torch.equal(o.spread(x, 0, 3).value, x.value.repeat_interleave(3, 0))


def test_reshaped_permutes_and_drops_dims() -> None:
    x = o.exact(torch.randn(4, 1, 3, 2))  # ... M N K
    assert torch.equal(o.reshaped(x, "... M N K", "... K N").value, x.value[:, 0].mT)
    column = o.exact(torch.randn(5, 1))
    assert torch.equal(o.reshaped(column, "M N", "M").value, column.value[:, 0])
    assert o.reshaped(o.exact(torch.tensor(2.0)), "M N", "N M").shape == (1, 1)


def test_reshaped_keeps_one_of_equal_elements() -> None:
    blocks = torch.randn(2, 3)
    x = o.spread(o.exact(blocks), -1, 4)  # K is 12
    assert torch.equal(o.reshaped(x, "... K", "... K/4").value, blocks.double())
    assert torch.equal(o.reshaped(x, "M K", "K/2 M").value, blocks.double().mT.repeat_interleave(2, 0))
    assert torch.equal(o.reshaped(x, "M K/2", "M K/8").value, x.value[:, ::4])
    assert o.reshaped(o.exact(torch.tensor(2.0)), "... K", "... K/4").shape == (1,)


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
