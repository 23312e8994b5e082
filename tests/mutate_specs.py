"""Mutates the shipped specs and builds them whole: each gives a build or diagnostics, never another failure.

    python -m tests.mutate_specs [COUNT] [--seed N]

Prints how the mutations ended; exits with 1 and the first text that broke something.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from opgen.diagnostics import SpecError
from opgen.pipeline import compile_specs
from opgen.source import Source

ROOT = Path(__file__).resolve().parents[1]

PIECES = (
    "op fn use for const inout T f32 bf16 i32 i64 u8 i4 bool [ ] ( ) { } , : ; = == < + - * / // % ** @ ... index[N] "
    'rand[...](3) sum[N](x) 0 1 -1 1e400 0.5 inf nan x y N K / 2 * 2 where( cast( and not ~ | & << "a" """ # \n'
).split(" ")


def mutated(text: str, chance: random.Random) -> str:
    """A text with a few characters, words or lines taken out, doubled, swapped or put in."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 1, 3, 10, 40]))
        other = chance.randrange(len(text) + 1)
        piece = chance.choice(
            [
                chance.choice(PIECES),
                text[start:end] * 2,
                text[other : other + end - start],
                chr(chance.randrange(1, 300)),
            ]
        )
        text = text[:start] + piece + text[end:]
    return text


def outcome(text: str) -> str:
    """How a build of a text ends. Raises whatever a build should not raise."""
    try:
        build = compile_specs([Source("specs/mutated.op", text)], targets=("sm_90",), read=_unread)
    except SpecError as error:
        return (
            "refused" if error.diagnostics and all(one.render() for one in error.diagnostics) else "no word"
        )
    return "built" if build.files else "nothing"


def _unread(path: str) -> Source:
    raise FileNotFoundError(path)


def ends(count: int, seed: int) -> Counter[str]:
    """How the builds of `count` mutations of the shipped specs end. Prints the text that broke one, and raises."""
    chance = random.Random(seed)
    specs = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "specs").glob("*.op"))]
    found: Counter[str] = Counter()
    for _ in range(count):
        text = mutated(chance.choice(specs), chance)
        try:
            found[outcome(text)] += 1
        except Exception:
            print(text)
            raise
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutates the shipped specs and builds them.")
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = ends(options.count, options.seed)
    print(
        f"{options.count} mutations: " + ", ".join(f"{count} {end}" for end, count in sorted(found.items()))
    )
    return 0 if set(found) <= {"built", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
