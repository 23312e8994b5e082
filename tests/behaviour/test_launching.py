"""Which configs a GPU takes that no table names."""

import pytest

from generated._launching import _nearest

TARGETS = dict.fromkeys(("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx1100"), ())


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("sm_70", "sm_75"),
        ("sm_87", "sm_80"),
        ("sm_103", "sm_100"),
        ("sm_121", "sm_120"),
        ("gfx940", "gfx90a"),
        ("gfx1101", "gfx1100"),
        ("other", "sm_75"),
    ],
)
def test_the_newest_target_that_is_not_above_the_device(device: str, expected: str) -> None:
    assert _nearest(device, TARGETS) == expected
