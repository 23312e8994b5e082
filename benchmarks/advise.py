"""Checks the predictions of `opgen advise` on a GPU: 12 sizes for each kind of op, drawn, and measured.

    python benchmarks/advise.py --out benchmarks        # writes advise.json and advise.md
    python benchmarks/advise.py --recorded FILE         # needs no GPU: the model as it is against times of a record

The sizes are drawn with a fixed seed, and none of them is one that the rates were fitted to (FITTED). Another `--seed`
draws other sizes than those: rates are fitted to those of the seeds 1, 2 and 3, and SEED is a test. Each op runs in
eager PyTorch, as the library's product with a generated epilogue, and fused, all in turn. A verdict agrees where what
it advises takes at most AGREES times the time of the fastest. The record names the commit that last changed the model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

# One kernel is compiled at a time: a pool of processes would only cost its start.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402
from opgen.advise.model import Advice, Verdict, advise
from opgen.advise.setting import settings
from opgen.device import contenders, inputs
from opgen.device.bench import op_module
from opgen.device.load import load_sources
from opgen.device.table import markdown_table, text_table
from opgen.device.timing import interleaved, machine
from opgen.ir.nodes import Op
from opgen.source import Source
from opgen.targets import TARGETS

SEED = 20261129
COUNT = 12
AGREES = 1.05
DEVICE = os.environ.get("OPGEN_BENCHMARK_DEVICE", "cuda")
TINY = DEVICE == "cpu"  # a rehearsal of everything but the times
#: What predictions are made from: the model, and the plans and costs that it reads.
MODEL = ("opgen/advise", "opgen/plan", "opgen/primitives.py", "opgen/targets.py")

#: Sizes that the rates were fitted to, or that were measured before: these are not drawn.
FITTED = {
    *((16384, 8192), (16384, 14336), (16384, 4096), (8192, 16384), (8192, 8192), (4096, 32768)),
    *((2048, 16384, 4096), (8192, 8192, 8192), (16384, 14336, 4096), (512, 14336, 4096), (64, 14336, 4096)),
    *((16, 14336, 4096), (1, 14336, 4096), (1, 4096, 14336), (4096, 14336, 4096), (1024, 14336, 4096)),
    *((4096, 4096, 4096), (1024, 4096, 4096), (256, 14336, 4096)),
}

SPEC = """
op swish(x: T[..., N], beta: f32 = 1.0) -> y: T[..., N] {{
  y = x * sigmoid(beta * x)
  reference "x * torch.sigmoid(beta * x)"
  sizes {{ {swish} }}
}}
op silu_mul(gate: T[..., N], up: T[..., N]) -> y: T[..., N] {{
  y = silu(gate) * up
  reference "F.silu(gate) * up"
  sizes {{ {silu_mul} }}
}}
op bias_gelu_residual(x: T[..., N], bias: T[N], residual: T[..., N]) -> y: T[..., N] {{
  y = gelu_tanh(x + bias) + residual
  reference "F.gelu(x + bias, approximate='tanh') + residual"
  sizes {{ {bias_gelu_residual} }}
}}
op softmax(x: T[..., C]) -> y: T[..., C] {{
  y = softmax[C](x)
  reference "torch.softmax(x, -1)"
  sizes {{ {softmax} }}
}}
op rms_norm(x: T[..., C], weight: T[C], eps: f32 = 1e-6) -> y: T[..., C] {{
  y = rms_norm[C](x, eps) * weight
  sizes {{ {rms_norm} }}
}}
op layer_norm_swish(x: T[..., C], gamma: T[C], beta: T[C], eps: f32 = 1e-5) -> y: T[..., C] {{
  h = normalize[C](x, eps) * gamma + beta
  y = h * sigmoid(h)
  reference "F.silu(F.layer_norm(x, (x.shape[-1],), gamma, beta, eps))"
  sizes {{ {layer_norm_swish} }}
}}
op linear_silu(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] {{
  y = silu(x @ w + b)
  reference "F.silu(F.linear(x, w, b))"
  sizes {{ {linear_silu} }}
}}
op swiglu(x: T[..., K], w_gate: T[N, K], w_up: T[N, K]) -> y: T[..., N] {{
  y = silu(x @ w_gate) * (x @ w_up)
  reference "F.silu(F.linear(x, w_gate)) * F.linear(x, w_up)"
  sizes {{ {swiglu} }}
}}
"""

KINDS = {
    "elementwise": ("swish", "silu_mul", "bias_gelu_residual"),
    "row": ("softmax", "rms_norm", "layer_norm_swish"),
    "product": ("linear_silu", "swiglu"),
}
DIMS = {"elementwise": ("...", "N"), "row": ("...", "C"), "product": ("...", "N", "K")}


# --- sizes --------------------------------------------------------------------------------------


Sizes = dict[str, list[tuple[int, ...]]]


def drawn(seed: int = SEED, count: int = COUNT) -> Sizes:
    """Sizes for each op: `count` for each kind, spread over its ops; those of SEED are drawn by no other seed."""
    kept = set(FITTED)
    if seed != SEED:
        kept |= {sizes for of_op in drawn().values() for sizes in of_op}
    random_ = random.Random(seed)  # noqa: S311 - reproducible, not secret
    found: Sizes = {op: [] for ops in KINDS.values() for op in ops}
    for kind, ops in KINDS.items():
        taken = set(kept)
        for number in range(count):
            sizes = next(one for one in iter(partial(draw, kind, random_), None) if one not in taken)
            taken.add(sizes)
            found[ops[number % len(ops)]].append(sizes)
    return found


def draw(kind: str, random_: random.Random) -> tuple[int, ...]:
    """One draw: from a few thousand elements to about a gigabyte, in multiples of 8 and 64."""
    if kind == "product":
        rows = random_.choice((1, 2, 8, 24, 48, 96, 200, 384, 768, 1536, 3072, 6144, 12288))
        return rows, log_uniform(random_, 1024, 16384, 64), log_uniform(random_, 1024, 16384, 64)
    columns = log_uniform(random_, 512, 32768, 8)
    elements = 2 ** random_.uniform(14, 28)
    return max(1, round(elements / columns)), columns


def log_uniform(random_: random.Random, low: int, high: int, multiple: int) -> int:
    exact = math.exp(random_.uniform(math.log(low), math.log(high)))
    return max(multiple, round(exact / multiple) * multiple)


def spec_text(sizes: Mapping[str, Sequence[tuple[int, ...]]]) -> str:
    """The specs with the drawn sizes; in a rehearsal, of at most 64 each."""
    texts = {}
    for kind, ops in KINDS.items():
        for op in ops:
            entries = []
            for number, one in enumerate(sizes[op]):
                small = [min(size, 64) if TINY else size for size in one]
                pairs = ", ".join(f"{dim} = {size}" for dim, size in zip(DIMS[kind], small, strict=True))
                entries.append(f"s{number}: {pairs}")
            texts[op] = ", ".join(entries)
    return SPEC.format(**texts)


# --- contenders ---------------------------------------------------------------------------------


def library(op: Op, package: ModuleType, values: Sequence[Any]) -> Callable[[], Any] | None:
    """The library's products, then the generated epilogue; None for ops without a product."""
    match op.name:
        case "linear_silu":
            epilogue = op_module_named(package, "swish")
            return lambda: epilogue.swish(F.linear(*values))
        case "swiglu":
            epilogue = op_module_named(package, "silu_mul")
            x, gate, up = values
            return lambda: epilogue.silu_mul(F.linear(x, gate), F.linear(x, up))
        case _:
            return None


def op_module_named(package: ModuleType, name: str) -> Any:
    return __import__(f"{package.__name__}.{name}", fromlist=[name])


@dataclass(frozen=True)
class Row:
    """A size: predicted and measured microseconds, the verdict, what it leaves to run, and whether it agrees."""

    kind: str
    op: str
    sizes: str
    verdict: str
    inside: str
    predicted: Mapping[str, float]
    measured: Mapping[str, float]
    fault: str | None = None

    @property
    def fastest(self) -> str:
        return min(self.measured, key=lambda name: self.measured[name])

    @property
    def agrees(self) -> bool:
        """Whether what the verdict advises is as fast as the fastest.

        To capture a graph is agreed to where the fastest is short, and else where what should be inside is as fast.
        """
        if self.verdict == Verdict.GRAPH.value and min(self.measured.values()) < SHORT_MICROSECONDS:
            return True
        return self.measured[self.advised] <= AGREES * self.measured[self.fastest]

    @property
    def advised(self) -> str:
        """What is advised to run; the faster, where either would do."""
        ways = [name for name in ADVISED[Verdict(self.inside)] if name in self.measured]
        return min(ways, key=lambda name: self.measured[name])

    @property
    def disagreement(self) -> str:
        """Why what is advised is not the fastest: the gain that was predicted, and the prediction that is most off."""
        off = max(self.ratios, key=lambda name: abs(math.log(self.ratios[name])))
        advised, fastest = self.measured[self.advised], self.measured[self.fastest]
        gain = self.predicted[self.advised] / self.predicted[self.fastest]
        return (
            f"{self.op} {self.sizes}: {self.advised} is advised and takes {advised:.1f} us, {self.fastest} takes "
            f"{fastest:.1f}, {advised / fastest:.2f} times faster, where {gain:.2f} was predicted: {off} is predicted "
            f"at {self.ratios[off]:.2f} of what it takes"
        )

    @property
    def ratios(self) -> dict[str, float]:
        """Predicted over measured."""
        return {name: self.predicted[name] / spent for name, spent in self.measured.items()}


SHORT_MICROSECONDS = 10.0
ADVISED = {
    Verdict.FUSE: ("fused",),
    Verdict.EPILOGUE: ("fused",),
    Verdict.LIBRARY: ("library", "eager"),
    Verdict.LEAVE: ("eager",),
}


def measure(kind: str, op: Op, package: ModuleType, target: str) -> Iterator[Row]:
    for case in inputs.cases(op, None, ["bf16"]):
        (setting,) = settings(op, [case.label], ["bf16"])
        advice = advise(setting, TARGETS[target])
        module = op_module(package, op)
        arguments = inputs.draw(case, DEVICE)
        values = tuple(arguments.values())
        works: dict[str, Callable[[], Any]] = {
            "eager": partial(contenders.eager(case, module), *values),
            "fused": partial(getattr(module, op.name), *values),
        }
        product = library(op, package, values)
        if product is not None:
            works["library"] = product
        wrong = contenders.fault(case, module, arguments)
        for work in works.values():
            work()
        times = dict.fromkeys(works, 1.0) if TINY else dict(interleaved(works))
        yield Row(kind, op.name, sizes_text(advice), *advised(advice), predictions(advice), times, wrong)
        del arguments, values, works, product
        if not TINY:
            torch.cuda.empty_cache()


def predict(
    kind: str, op: Op, target: str, recorded: Mapping[tuple[str, str], Mapping[str, float]]
) -> Iterator[Row]:
    """What the model says today of what was measured in an earlier record."""
    for case in inputs.cases(op, None, ["bf16"]):
        (setting,) = settings(op, [case.label], ["bf16"])
        advice = advise(setting, TARGETS[target])
        sizes = sizes_text(advice)
        yield Row(kind, op.name, sizes, *advised(advice), predictions(advice), recorded[op.name, sizes])


def advised(advice: Advice) -> tuple[str, str]:
    return advice.verdict.value, advice.inside.value


def predictions(advice: Advice) -> dict[str, float]:
    times = {"eager": advice.times.eager, "fused": advice.times.fused}
    return times | ({} if advice.times.library is None else {"library": advice.times.library})


def sizes_text(advice: Advice) -> str:
    return "x".join(str(size) for size in advice.setting.sizes.values())


# --- the record ---------------------------------------------------------------------------------


def frozen_at() -> str:
    """The commit that last changed the model and its rates, and a digest of their text."""
    texts = sorted(path for name in MODEL for path in files_of(ROOT / name))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in texts)).hexdigest()[:12]
    commit = told("git", "log", "-1", "--format=%H", "--", *MODEL) or "unknown: no git history here"
    changed = (
        " and changes that are not committed" if told("git", "status", "--porcelain", "--", *MODEL) else ""
    )
    return f"commit {commit}{changed}, text {digest}"


def files_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.py")) if path.is_dir() else [path]


def told(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603 - git
    return done.stdout.strip() if done.returncode == 0 else ""


def statistics(rows: Sequence[Row]) -> dict[str, float]:
    """Of predicted over measured: the geometric mean, that of the distance from 1, the worst; and the agreement."""
    logs = [math.log(ratio) for row in rows for ratio in row.ratios.values()]
    return {
        "geometric mean": math.exp(sum(logs) / len(logs)),
        "typical distance": math.exp(sum(map(abs, logs)) / len(logs)),
        "worst": math.exp(max(map(abs, logs))),
        "verdicts agreed": sum(row.agrees for row in rows) / len(rows),
    }


COLUMNS = ("op", "sizes", "verdict", "fastest", "agrees", "eager", "library", "fused", "predicted / measured")


def cells(row: Row) -> tuple[str, ...]:
    def pair(name: str) -> str:
        return f"{row.predicted[name]:.1f} / {row.measured[name]:.1f}" if name in row.measured else "-"

    ratios = ", ".join(
        f"{row.ratios[name]:.2f}" for name in ("eager", "library", "fused") if name in row.ratios
    )
    agrees = "yes" if row.agrees else "no"
    inside = "" if row.inside == row.verdict else f": {row.inside}"
    return (
        row.op,
        row.sizes,
        f"{row.verdict}{inside}",
        row.fastest,
        agrees,
        pair("eager"),
        pair("library"),
        pair("fused"),
        ratios,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="the folder that advise.json and advise.md are written to")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"default: {','.join(KINDS)}")
    parser.add_argument(
        "--seed", type=int, default=SEED, help=f"what the sizes are drawn with; default: {SEED}"
    )
    parser.add_argument("--count", type=int, default=COUNT, help=f"sizes of each kind; default: {COUNT}")
    parser.add_argument(
        "--recorded",
        type=Path,
        metavar="FILE",
        help="measure nothing; take the times of an earlier advise.json",
    )
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    source = Source("advise.op", spec_text(drawn(arguments.seed, arguments.count)))
    build, package = load_sources([source], lambda path: Source(path, ""))
    ops = {op.ir.name: op.ir for spec in build.specs for op in spec.ops}
    about, measured = earlier(arguments.recorded) if arguments.recorded else (machine(), None)
    target = about.get("target") or ("sm_90" if TINY else own_target())
    rows: list[Row] = []
    with torch.no_grad():
        for kind in kinds:
            for name in KINDS[kind]:
                found = (
                    measure(kind, ops[name], package, target)
                    if measured is None
                    else predict(kind, ops[name], target, measured)
                )
                for row in found:
                    rows.append(row)
                    print("  ".join(cells(row)), flush=True)
    about = {**about, "model": frozen_at(), "target": target, "seed": str(arguments.seed)}
    report(rows, about, kinds, arguments.out)
    return 1 if any(row.fault for row in rows) else 0


def earlier(record: Path) -> tuple[dict[str, str], dict[tuple[str, str], Mapping[str, float]]]:
    """What a record says of its machine, and its times by op and sizes."""
    told = json.loads(record.read_text(encoding="utf-8"))
    return told["machine"], {(row["op"], row["sizes"]): row["measured"] for row in told["rows"]}


def own_target() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def report(rows: Sequence[Row], about: Mapping[str, str], kinds: Sequence[str], out: Path | None) -> None:
    title = ", ".join(f"{name} {value}" for name, value in about.items())
    summary = {kind: statistics([row for row in rows if row.kind == kind]) for kind in kinds}
    summary["all"] = statistics(rows)
    lines = [
        f"{kind}: " + ", ".join(f"{name} {value:.3f}" for name, value in one.items())
        for kind, one in summary.items()
    ]
    lines += [f"disagrees: {row.disagreement}" for row in rows if not row.agrees]
    faults = [f"{row.op} {row.sizes}: wrong: {row.fault}" for row in rows if row.fault]
    table = [cells(row) for row in rows]
    print("\n".join([title, text_table(COLUMNS, table), *lines, *faults]))
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    records = [{**asdict(row), "agrees": row.agrees, "ratios": row.ratios} for row in rows]
    told_json = json.dumps({"machine": about, "summary": summary, "rows": records}, indent=1)
    (out / "advise.json").write_text(told_json + "\n", encoding="utf-8")
    notes = "\n".join(f"- {line}" for line in (*lines, *faults))
    text = (
        f"# Predictions of `opgen advise`\n\n{title}. bf16; microseconds, predicted / measured."
        f"\n\n{notes}\n\n{markdown_table(COLUMNS, table)}\n"
    )
    (out / "advise.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
