"""What only a GPU can show of the checked-in ops: one run, a short table at the end.

    python benchmarks/gpu_checks.py --out DIR               # DIR/gpu_checks.json has every failure in full
    python benchmarks/gpu_checks.py --jobs 8 --skip tests   # quicker, and without the behaviour tests

The behaviour tests on the GPU; torch.compile and opcheck; CUDA graphs; how many kernels are compiled; a second GPU;
backward passes. A check that fails is told and the next one runs. The exit code is 1 where one failed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

# One kernel is compiled at a time: a pool of processes would only cost its start.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import triton
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402
from opgen.device.table import text_table
from opgen.device.timing import machine

DEVICE = "cuda"
COLUMNS = 256  # of most tensors; a multiple of 16, so that rows are aligned
Arguments = tuple[Any, ...]
RANDOM = random.Random(20240229)  # noqa: S311 - shapes and seeds of calls


class Skipped(Exception):  # noqa: N818 - it is no error
    """A check that this machine cannot make."""


# --- arguments of the shipped ops ---------------------------------------------------------------


def randn(*shape: int, dtype: torch.dtype, device: str) -> Tensor:
    return torch.randn(shape, device=device).to(dtype)


def tensors(count: int, *scalars: float) -> Callable[..., Arguments]:
    """A maker of `count` tensors [rows, COLUMNS], then the scalars."""

    def make(rows: int, dtype: torch.dtype, device: str) -> Arguments:
        return *(randn(rows, COLUMNS, dtype=dtype, device=device) for _ in range(count)), *scalars

    return make


def bias_arguments(rows: int, dtype: torch.dtype, device: str) -> Arguments:
    x, residual = (randn(rows, COLUMNS, dtype=dtype, device=device) for _ in range(2))
    return x, randn(COLUMNS, dtype=dtype, device=device), residual


def mask_arguments(rows: int, dtype: torch.dtype, device: str) -> Arguments:
    x = randn(rows, COLUMNS, dtype=dtype, device=device)
    return x, torch.rand(x.shape, device=device) < 0.3, -3.0, 0.125


def rope_arguments(rows: int, dtype: torch.dtype, device: str, table: int = 64) -> Arguments:
    """x [rows, S, H, D]."""
    cos, sin = (randn(6, table, dtype=dtype, device=device) for _ in range(2))
    return randn(rows, 6, 4, 64, dtype=dtype, device=device), cos, sin


def rope_pairs_arguments(rows: int, dtype: torch.dtype, device: str) -> Arguments:
    return rope_arguments(rows, dtype, device, table=32)


def embedding_arguments(rows: int, dtype: torch.dtype, device: str) -> Arguments:
    ids, positions = torch.randint(50, (rows, 6), device=device), torch.randint(20, (6,), device=device)
    tables = (randn(count, COLUMNS, dtype=dtype, device=device) for count in (50, 20))
    return ids, positions, *tables


#: For some ops: a function of a number of rows, an element type and a device that draws arguments.
ARGUMENTS: dict[str, Callable[..., Arguments]] = {
    "bias_gelu_residual": bias_arguments,
    "dropout": tensors(1, 0.3, 1234),
    "embedding_add": embedding_arguments,
    "geglu": tensors(2),
    "gelu": tensors(1),
    "gelu_tanh": tensors(1),
    "hardswish": tensors(1),
    "lerp": tensors(2, 0.3),
    "masked_fill_scale": mask_arguments,
    "mish": tensors(1),
    "quantise_fp8": tensors(1, 0.25),
    "relu_squared": tensors(1),
    "rope": rope_arguments,
    "rope_interleaved": rope_pairs_arguments,
    "silu_mul": tensors(2),
    "softcap": tensors(1, 30.0),
    "softplus": tensors(1, 0.75),
    "swish": tensors(1, 1.5),
}


SIZES = {"K": 128, "C": 256, "N": 64, "D": 32, "E": 8, "R": 16}
"""Of named dims; others have 16, and the leading ones, or else the first of the first tensor, as many as asked for."""


def declared_arguments(name: str, rows: int, dtype: torch.dtype, device: str) -> Arguments:
    """Arguments as an op declares them: normal numbers, small integers, and scalars at their defaults."""
    operator = entry(name).operator
    first = operator.inputs[0].dims[0]
    tensors_by_name = {spec.name: spec for spec in operator.inputs}
    scalars = {spec.name: spec for spec in operator.scalars}
    arguments: list[Any] = []
    for parameter, declared in inspect.signature(op(name)).parameters.items():
        if parameter in scalars:
            default = 1234 if scalars[parameter].type == "i64" else 0.3
            arguments.append(default if declared.default is declared.empty else declared.default)
        elif parameter in tensors_by_name:
            spec = tensors_by_name[parameter]
            shape = [rows if one.text == first else one.size(SIZES.get(one.name, 16)) for one in spec.parsed]
            arguments.append(declared_tensor(spec, shape, dtype, device))
    return tuple(arguments)


def declared_tensor(spec: Any, shape: list[int], dtype: torch.dtype, device: str) -> Tensor:
    types = importlib.import_module("generated._runtime").DTYPES
    own = types.get(spec.element, dtype)
    if own.is_floating_point:
        return randn(*shape, dtype=own, device=device)
    if own == torch.bool:
        return torch.rand(shape, device=device) < 0.5
    return torch.randint(0, 8, shape, device=device).to(own)


def module(name: str) -> Any:
    return importlib.import_module(f"generated.{name}")


def op(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module(name), name)
    return function


def draw(name: str, rows: int = 24, dtype: torch.dtype = torch.float32) -> Arguments:
    if name in ARGUMENTS:
        return ARGUMENTS[name](rows, dtype, DEVICE)
    return declared_arguments(name, rows, dtype, DEVICE)


def results_of(name: str, arguments: Arguments) -> tuple[Tensor, ...]:
    found = op(name)(*arguments)
    return found if isinstance(found, tuple) else (found,)


def scalars_as_tensors(name: str, arguments: Arguments) -> Arguments:
    """The same call with 0-d tensors on the device for its scalars."""
    kinds = {spec.name: spec.type for spec in entry(name).operator.scalars if not spec.const}
    return tuple(
        torch.tensor(value, dtype=torch.int64 if kinds[parameter] == "i64" else torch.float32, device=DEVICE)
        if parameter in kinds
        else value
        for parameter, value in zip(entry(name).parameters, arguments, strict=True)
    )


def entry(name: str) -> Any:
    return module(name)._ENTRY  # noqa: SLF001 - the declaration of the op, which its operator is made from


def assert_same(got: Tensor, expected: Tensor) -> None:
    """The same values, bit for bit."""
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
    wrong = got.contiguous().view(width) != expected.contiguous().view(width)
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} elements differ"


def assert_near(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """The same values, up to rounding, of one tensor or of several."""
    if isinstance(got, tuple):
        for one, other in zip(got, expected, strict=True):
            assert_near(one, other, tolerance)
        return
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    assert got.stride() == expected.stride(), (got.stride(), expected.stride())
    torch.testing.assert_close(got.float(), expected.float(), rtol=tolerance, atol=tolerance)
    assert expected.float().abs().sum() > 0, "the expected values are all zero"


# --- the checks: each raises, or returns a remark -----------------------------------------------


def check_table() -> str:
    names = set(importlib.import_module("generated").__all__)
    assert set(ARGUMENTS) <= names, f"ops that are not there: {sorted(set(ARGUMENTS) - names)}"
    return f"{len(names)} ops"


def check_reference(name: str) -> str:
    """The kernel against the generated reference on the same device."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        arguments = draw(name, 37, dtype)
        got, expected = results_of(name, arguments), module(name).reference(*arguments)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert all(one.device == other.device for one, other in zip(got, expected, strict=True))
        assert_near(got, expected, 4 * max(torch.finfo(dtype).eps, 1e-5))
    return ""


def around(name: str) -> Callable[..., tuple[Tensor, ...]]:
    """A larger function: operations before and after the op."""
    inner = op(name)

    def function(*arguments: Any) -> tuple[Tensor, ...]:
        before = [
            value + 0.5 if isinstance(value, Tensor) and value.is_floating_point() else value
            for value in arguments
        ]
        found = inner(*before)
        return tuple(one.float() * 2 - 1 for one in (found if isinstance(found, tuple) else (found,)))

    return function


def compiled_graphs(name: str, calls: list[Arguments], *, dynamic: bool | None) -> int:
    """Compares compiled calls with eager ones; the number of graphs that are kept: a restarted compilation is one."""
    torch.compiler.reset()
    function = around(name)
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for arguments in calls:
        assert_near(compiled(*arguments), function(*arguments))
    kept = importlib.import_module("torch._dynamo.eval_frame")._debug_get_cache_entry_list  # noqa: SLF001 - nothing public counts them
    return len(kept(function.__code__))


def check_compile_static(name: str) -> str:
    torch.compiler.reset()
    arguments, function = draw(name), around(name)
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    assert_near(compiled(*arguments), function(*arguments))
    with torch.compiler.set_stance("fail_on_recompile"):  # its error names the guard that fails
        compiled(*arguments)
    return ""


def check_compile_tensor_scalars(name: str) -> str:
    """0-d tensors for the scalars."""
    if not entry(name).operator.scalars:
        raise Skipped("no scalars")
    compiled_graphs(name, [scalars_as_tensors(name, draw(name))], dynamic=False)
    return ""


def check_compile_layout(name: str) -> str:
    """Transposed inputs."""
    turned = tuple(
        value.transpose(0, 1).contiguous().transpose(0, 1)
        if isinstance(value, Tensor) and value.dim() > 1
        else value
        for value in draw(name)
    )
    compiled_graphs(name, [turned], dynamic=False)
    return ""


def check_compile_dynamic(name: str) -> str:
    # One for sizes that are multiples of 16 and one for others; a number that changes makes one more.
    graphs = compiled_graphs(name, [draw(name, rows) for rows in (24, 40, 7, 1000)], dynamic=True)
    assert graphs <= 3, f"{graphs} graphs for four sizes of a dim"
    return ""


def check_compile_automatic(name: str) -> str:
    """The default: static at first, dynamic once a size has changed."""
    graphs = compiled_graphs(name, [draw(name, rows) for rows in (24, 40, 7, 1000)], dynamic=None)
    assert graphs <= 4, f"{graphs} graphs for four sizes of a dim"
    return ""


def registered_arguments(name: str, arguments: Arguments) -> Arguments:
    """The arguments of the registered operator: a number and an optional tensor for each scalar."""
    scalars = {spec.name: spec for spec in entry(name).operator.scalars if not spec.const}
    result: list[Any] = []
    for parameter, value in zip(entry(name).parameters, arguments, strict=True):
        if parameter not in scalars:
            result.append(value)
        elif isinstance(value, Tensor):
            result += [scalars[parameter].placeholder, value]
        else:
            result += [value, None]
    return tuple(result)


def check_opcheck(name: str) -> str:
    package = importlib.import_module("generated._runtime").PACKAGE
    registered = getattr(getattr(torch.ops, package), name).default
    plain = draw(name)
    for arguments in (plain, scalars_as_tensors(name, plain))[: 2 if entry(name).operator.scalars else 1]:
        results = torch.library.opcheck(registered, registered_arguments(name, arguments))
        assert set(results.values()) == {"SUCCESS"}, results
    return ""


def check_graph_replay(name: str) -> str:
    """Capture, change every tensor (0-d scalars too) in place, replay."""
    first = scalars_as_tensors(name, draw(name))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        op(name)(*first)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = results_of(name, first)
    for changed in (1, 2):
        other = scalars_as_tensors(name, draw(name))
        for parameter, old, new in zip(entry(name).parameters, first, other, strict=True):
            scalar = isinstance(old, Tensor) and old.dim() == 0
            old.copy_(another_scalar(parameter, new, changed) if scalar else new)
        for result in results:
            result.view(torch.uint8).fill_(255)
        graph.replay()
        torch.cuda.synchronize()
        for result, again in zip(results, results_of(name, first), strict=True):
            assert_same(result, again)
    return ""


def another_scalar(parameter: str, value: Tensor, changed: int) -> Tensor:
    return value + changed if parameter == "seed" else value * (1 + 0.5 * changed)


def compiled_kernels(name: str) -> dict[str, int]:
    """How many kernels Triton has compiled, by the jitted function of a module."""
    counts = {}
    for attribute, function in vars(module(name)).items():
        if isinstance(function, triton.runtime.jit.JITFunction):
            counts[attribute] = sum(len(kernels_of(cache)) for cache in function.device_caches.values())
    return {attribute: count for attribute, count in counts.items() if count}


def kernels_of(cache: Any) -> Any:
    """The compiled kernels of one device: the first of the tuple that Triton keeps for it."""
    return cache[0] if isinstance(cache, tuple) else cache


def variants(name: str, calls: Iterator[Callable[[], Any]]) -> str:
    """Makes calls with empty caches; the counts of kernels, such as `_swish_dense 1`."""
    for function in vars(module(name)).values():
        if isinstance(function, triton.runtime.jit.JITFunction):
            function.device_caches.clear()
    for call in calls:
        call()
    return ", ".join(f"{attribute} {count}" for attribute, count in compiled_kernels(name).items())


def expect_variants(name: str, calls: Iterator[Callable[[], Any]], most: int) -> str:
    remark = variants(name, calls)
    counts = [int(part.rsplit(" ", 1)[1]) for part in remark.split(", ") if part]
    assert counts, "no kernel was compiled: the counting itself is wrong"
    assert sum(counts) <= most, f"{remark}; at most {most} expected"
    return remark


def check_float_values() -> str:
    """Scalars that Triton would specialise on among them: 0, 1, 16, whole numbers, both zeros."""
    (x, _) = draw("swish")
    values = [
        0.0,
        -0.0,
        1.0,
        16.0,
        0,
        1,
        16,
        2**20,
        float("inf"),
        *(RANDOM.uniform(-4, 4) for _ in range(91)),
    ]
    return expect_variants("swish", (partial(op("swish"), x, v) for v in values), 1)


def check_seed_values() -> str:
    """64-bit seeds, small and large ones."""
    (x, _, _) = draw("dropout")
    values = [0, 1, 16, -1, 2**31 - 1, 2**31, 2**32, -(2**63), 2**63 - 1]
    values += [RANDOM.randrange(-(2**63), 2**63) for _ in range(91)]
    return expect_variants("dropout", (partial(op("dropout"), x, 0.5, v) for v in values), 1)


def shapes(count: int, row_step: int, columns: tuple[int, int, int]) -> Iterator[tuple[int, int]]:
    for _ in range(count):
        yield row_step * RANDOM.randrange(4, 40), RANDOM.randrange(*columns)


def calls_of_swish(found: Iterator[tuple[int, int]]) -> Iterator[Callable[[], Any]]:
    for rows, columns in found:
        x = torch.randn(rows, columns, device=DEVICE)
        yield partial(op("swish"), x)


def calls_of_bias(
    found: Iterator[tuple[int, int]], *, turned: bool = False, step: int = 0
) -> Iterator[Callable[[], Any]]:
    """Calls with bias; x is transposed, or a slice out of rows that are longer by up to 8 * `step`."""
    for rows, columns in found:
        x, residual = (torch.randn(rows, columns, device=DEVICE) for _ in range(2))
        if turned:
            x = torch.randn(columns, rows, device=DEVICE).t()
        if step:
            extra = step * RANDOM.randrange(1, 8)
            x = torch.randn(rows, columns + extra, device=DEVICE)[:, :columns]
        bias = torch.randn(columns, device=DEVICE)
        yield partial(op(BIAS), x, bias, residual)


BIAS = "bias_gelu_residual"
#: Ranges of columns: multiples of 16 in one band of tiles, multiples of 16 of any width, odd ones, whose products with
#: numbers of rows are multiples of 16, of 8, of 4 or of none of these.
WIDE, ANY, ODD = (4096, 8192, 16), (16, 8192, 16), (4097, 8192, 2)

#: For each item: an op, a maker of calls, and the most kernels that they may need.
SHAPE_CHECKS: dict[str, tuple[str, Callable[[], Iterator[Callable[[], Any]]], int]] = {
    "100 aligned shapes, dense": ("swish", lambda: calls_of_swish(shapes(100, 16, WIDE)), 1),
    "100 odd shapes, dense": ("swish", lambda: calls_of_swish(shapes(100, 1, ODD)), 4),
    "100 aligned shapes, rows": (BIAS, lambda: calls_of_bias(shapes(100, 16, WIDE)), 1),
    "100 aligned strides, rows": (BIAS, lambda: calls_of_bias(shapes(100, 16, WIDE), step=16), 1),
    "100 odd shapes and strides, rows": (BIAS, lambda: calls_of_bias(shapes(100, 1, ODD), step=3), 4),
    "100 aligned shapes, transposed": (BIAS, lambda: calls_of_bias(shapes(100, 16, WIDE), turned=True), 1),
    "100 aligned shapes of any width, rows": (BIAS, lambda: calls_of_bias(shapes(100, 16, ANY)), 10),
}


def check_second_gpu(name: str) -> str:
    """A launch on a GPU that is not the current one; equal to the first GPU's result."""
    if torch.cuda.device_count() < 2:
        raise Skipped("one GPU")
    arguments = draw(name)
    there = tuple(value.to("cuda:1") if isinstance(value, Tensor) else value for value in arguments)
    assert torch.cuda.current_device() == 0
    found = results_of(name, there)
    assert torch.cuda.current_device() == 0
    for got, expected in zip(found, results_of(name, arguments), strict=True):
        assert got.device == torch.device("cuda:1"), got.device
        assert_same(got.to("cuda:0"), expected)
    return ""


def check_backward(name: str) -> str:
    """A backward through an op without one raises and names it, compiled or not: never zeros."""
    needing = [
        value.requires_grad_() if isinstance(value, Tensor) and value.is_floating_point() else value
        for value in draw(name)
    ]
    for function in (op(name), torch.compile(op(name), fullgraph=True)):
        message = error_of_backward(function, needing)
        grads = [value.grad is not None for value in needing if isinstance(value, Tensor)]
        assert message is not None, f"the backward did not raise; inputs with gradients: {grads}"
        assert name in message, f"the message does not name the op: {message}"
        assert "backward" in message, f"the message does not speak of a backward: {message}"
    return ""


def error_of_backward(function: Callable[..., Any], arguments: list[Any]) -> str | None:
    """What a call with its backward raises, or None."""
    torch.compiler.reset()
    try:
        found = function(*arguments)
        result = next(one for one in (found if isinstance(found, tuple) else (found,)) if one.requires_grad)
        result.backward(torch.ones_like(result))
    except RuntimeError as error:
        return str(error)
    return None


def check_behaviour(paths: list[str], limit: int) -> str:
    """The tests of the ops, on the GPU, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=short",
            f"--junitxml={record}",
        ]
        command += ["-n", "8"] if importlib.util.find_spec("xdist") else []
        log = Path(folder) / "log"
        with log.open("w", encoding="utf-8") as stream:
            code = run_within(limit, [*command, *paths], stream)
        suites = list(ET.parse(record).getroot().iter("testsuite")) if record.exists() else []  # noqa: S314
        names = ("tests", "failures", "errors", "skipped")
        total, failures, errors, skipped = (sum(int(s.get(key, "0")) for s in suites) for key in names)
        remark = (
            f"{total - failures - errors - skipped} passed, {failures + errors} failed, {skipped} skipped"
        )
        tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-60:])
    assert code == 0, f"{remark} (exit code {code})\n{tail}"
    return remark


def run_within(limit: int, command: list[str], log: Any) -> int:
    """The exit code of a command, or 124 where it took longer than `limit` seconds."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124
    return done.returncode


# --- running them -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one check of a group."""

    group: str
    item: str
    state: str  # "passed", "failed" or "skipped"
    remark: str
    seconds: float


#: Groups of checks that every op gets.
OF_EVERY_OP: dict[str, Callable[[str], str]] = {
    "reference": check_reference,
    "compile static": check_compile_static,
    "compile tensor scalars": check_compile_tensor_scalars,
    "compile layout": check_compile_layout,
    "compile dynamic": check_compile_dynamic,
    "compile automatic": check_compile_automatic,
    "opcheck": check_opcheck,
    "cuda graph": check_graph_replay,
    "second gpu": check_second_gpu,
    "backward raises": check_backward,
}
ON_GPU_ONLY = ("cuda graph", "second gpu", "variants")


def checks_of(name: str, chosen: list[str], device: str) -> list[Outcome]:
    """The chosen groups of one op; what a worker process runs."""
    globals()["DEVICE"] = device
    torch.manual_seed(20240229)
    return [
        outcome(group, name, partial(check, name)) for group, check in OF_EVERY_OP.items() if group in chosen
    ]


def checks_of_package(options: argparse.Namespace) -> dict[str, dict[str, Callable[[], str]]]:
    """The checks that are not of one op, by group and item."""
    counts: dict[str, Callable[[], str]] = {
        "100 floats": check_float_values,
        "100 seeds": check_seed_values,
    }
    for item, (name, calls, most) in SHAPE_CHECKS.items():
        counts[item] = partial(expect_variants, name, calls(), most)
    return {
        "table": {"all ops": check_table},
        "variants": counts,
        "tests": {"behaviour": lambda: check_behaviour(options.tests, options.limit)},
    }


def chosen_groups(options: argparse.Namespace) -> list[str]:
    skipped = {*options.skip, *(ON_GPU_ONLY if options.device == "cpu" else ())}
    known = ["table", *OF_EVERY_OP, "variants", "tests"]
    return [group for group in known if group not in skipped and (not options.only or group in options.only)]


def run_all(options: argparse.Namespace) -> Iterator[Outcome]:
    """The checks of each op, in worker processes where several are asked for, then those of the package."""
    chosen = chosen_groups(options)
    shipped = importlib.import_module("generated").__all__
    names = [name for name in shipped if not options.ops or name in options.ops]
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            jobs = [(name, pool.submit(checks_of, name, chosen, options.device)) for name in names]
            for name, job in jobs:
                try:
                    yield from job.result()
                except Exception as error:  # noqa: BLE001 - a process that died is an outcome, too
                    yield Outcome("worker", name, "failed", f"{type(error).__name__}: {error}", 0)
    else:
        for name in names:
            yield from checks_of(name, chosen, options.device)
    for group, checks in checks_of_package(options).items():
        if group in chosen:
            yield from (outcome(group, item, check) for item, check in checks.items())


def outcome(group: str, item: str, check: Callable[[], str]) -> Outcome:
    start = time.monotonic()
    try:
        state, remark = "passed", check()
    except Skipped as reason:
        state, remark = "skipped", str(reason)
    except Exception as error:  # noqa: BLE001 - whatever a check raises is its outcome
        place = traceback.extract_tb(error.__traceback__)[-1]
        state, remark = (
            "failed",
            f"{type(error).__name__}: {error} [{Path(place.filename).name}:{place.lineno}]",
        )
    return Outcome(group, item, state, remark, round(time.monotonic() - start, 1))


def failures(outcomes: list[Outcome]) -> dict[tuple[str, str], list[str]]:
    """The items of each group that failed in the same words, which are cut short."""
    found: dict[tuple[str, str], list[str]] = {}
    for failure in (one for one in outcomes if one.state == "failed"):
        words = failure.remark if failure.group == "tests" else " ".join(failure.remark.split())[:500]
        found.setdefault((failure.group, words.replace(failure.item, "OP")), []).append(failure.item)
    return found


def report(outcomes: list[Outcome]) -> str:
    """Failures in a few lines each, remarks of the counts, then the table of groups."""
    lines = [
        f"FAILED {group}: {', '.join(items)}: {text}" for (group, text), items in failures(outcomes).items()
    ]
    lines += [
        f"{found.group} / {found.item}: {found.remark}"
        for found in outcomes
        if found.group in ("variants", "tests") and found.state == "passed"
    ]
    rows = []
    for group in dict.fromkeys(found.group for found in outcomes):
        states = [found.state for found in outcomes if found.group == group]
        seconds = sum(found.seconds for found in outcomes if found.group == group)
        counts = [str(states.count(state)) for state in ("passed", "failed", "skipped")]
        rows.append((group, *counts, f"{seconds:.0f}"))
    return "\n".join([*lines, text_table(("group", "passed", "failed", "skipped", "seconds"), rows)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="where gpu_checks.json goes")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP")
    parser.add_argument("--skip", action="append", default=[], metavar="GROUP")
    parser.add_argument("--ops", action="append", default=[], metavar="OP")
    parser.add_argument("--tests", action="append", metavar="PATH", help="default: tests/behaviour")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="of the behaviour tests")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the checks of single ops")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: what needs no GPU")
    options = parser.parse_args()
    options.tests = options.tests or ["tests/behaviour"]
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("a GPU is needed, and PyTorch sees none")
    globals()["DEVICE"] = options.device
    torch.manual_seed(20240229)
    outcomes = []
    for found in run_all(options):
        outcomes.append(found)
        if found.state == "failed":
            print(f"failed: {found.group} / {found.item}", flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        record = {"machine": machine(), "outcomes": [asdict(found) for found in outcomes]}
        (options.out / "gpu_checks.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(report(outcomes))
    return 1 if any(found.state == "failed" for found in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
