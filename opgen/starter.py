"""The spec that `opgen new` writes."""

from __future__ import annotations

import keyword

from opgen.dtypes import DTYPES

_CONSTANTS = ("true", "false", "inf", "nan", "pi")

_STARTER = '''\
# A spec declares operators. `opgen build` turns this one into a Triton kernel, a function that launches it,
# an eager reference and tests; `opgen explain` shows how it is planned for each GPU.

"""Scales x and shifts it along its last dim, then applies silu."""
op NAME(
  x: T[..., C],  # a tensor: any leading dims, then C
  shift: T[C] = 0,  # may be left out, and is 0 then
  scale: f32 = 1.0,  # a number given at each call
) -> y: T[..., C]
  for T in {f16, bf16, f32}
{
  # Values combine by the names of their dims; this is computed in f32 and rounded once, when it is stored.
  y = silu(x * scale + shift)

  # Representative sizes, for planning and for `opgen bench`.
  sizes {
    small: ... = 128, C = 1024,
    large: ... = 8192, C = 4096,
  }
}
'''


def starter_spec(name: str) -> str:
    """A small spec that builds, with an op called `name`."""
    return _STARTER.replace("NAME", name)


def fault_of_name(name: str) -> str | None:
    """Why an op cannot have this name, or None."""
    if not name.isidentifier():
        return "a name has letters, digits and underscores, and does not begin with a digit"
    if keyword.iskeyword(name):
        return f"it is a word of Python's; `{name}_` would do"
    if name in _CONSTANTS or name in DTYPES:
        return "it is a word of the language"
    return None
