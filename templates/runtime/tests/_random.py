"""`rand` of the language: Philox-4x32-10 on int64 tensors that hold 32-bit words.

Constants and rounds are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
2011); the step from a word to a float is that of `tl.rand`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._intervals import F64, nearest
from ._origin import positions
from ._values import Value, certain

_WORD = 2**32 - 1
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_SCALE = 4.6566127342e-10  # just below 2^-31, so that no word gives 1


def rand(sizes: tuple[int, ...], seed: int, device: torch.device | None = None) -> Value:
    """Uniform numbers in [0, 1): `f32 [*sizes]`, exact; `seed` is taken modulo 2^64."""
    position = positions(math.prod(sizes), device)
    word = _first_word(position, seed % 2**64)
    signed = torch.where(word > _WORD >> 1, word - (_WORD + 1), word)
    magnitude = torch.where(signed < 0, -signed - 1, signed)
    scale = nearest(torch.tensor(_SCALE, dtype=F64, device=device), torch.float32)
    uniform = nearest(nearest(magnitude.to(F64), torch.float32) * scale, torch.float32)
    return certain(uniform.reshape(sizes), "f32")


def _first_word(position: Tensor, seed: int) -> Tensor:
    """The first of the four words for the counter (position mod 2^32, position div 2^32, 0, 0)."""
    c0, c1 = position & _WORD, position >> 32
    c2 = c3 = torch.zeros_like(position)
    k0, k1 = seed & _WORD, seed >> 32
    for _ in range(_ROUNDS):
        (high_0, low_0), (high_2, low_2) = _product(_MULTIPLIERS[0], c0), _product(
            _MULTIPLIERS[1], c2
        )
        c0, c1, c2, c3 = high_2 ^ c1 ^ k0, low_2, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0


def _product(factor: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low word of a product of two 32-bit words, from halves that fit int64."""
    upper, lower = factor * (word >> 16), factor * (word & 0xFFFF)
    high = (upper + (lower >> 16)) >> 16
    low = (((upper & 0xFFFF) << 16) + lower) & _WORD
    return high, low
