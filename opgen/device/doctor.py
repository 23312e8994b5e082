"""`opgen doctor`: this machine, what is known not to work on it, and what opgen therefore makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from opgen.device.known_bad import COMBINATIONS, Combination, Weight
from opgen.device.machine import Gpu, Machine, nearest_target
from opgen.device.units import NO_UNIT, REFUSED, UNITS


@dataclass(frozen=True)
class Finding:
    """A combination that applies, and what of this machine it is about."""

    combination: Combination
    about: str


@dataclass(frozen=True)
class Diagnosis:
    machine: Machine
    findings: tuple[Finding, ...]

    @property
    def is_broken(self) -> bool:
        """Whether something that is here cannot work."""
        return any(found.combination.weight is Weight.BROKEN for found in self.findings)

    @property
    def text(self) -> str:
        sections = (
            ("This machine", _machine_lines(self.machine)),
            ("What is known of it", _finding_lines(self.findings)),
            ("What follows", consequences(self)),
        )
        return "\n\n".join("\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections)

    @property
    def json(self) -> str:
        """The same, as JSON text."""
        findings = [
            {
                "code": found.combination.code,
                "weight": found.combination.weight.value,
                "about": found.about,
                "consequence": found.combination.consequence,
                "remedy": found.combination.remedy,
                "source": found.combination.source,
            }
            for found in self.findings
        ]
        about = {"machine": asdict(self.machine), "findings": findings, "follows": list(consequences(self))}
        return json.dumps(about, indent=2)


def diagnose(machine: Machine) -> Diagnosis:
    """What applies to a machine, the worst first."""
    found = [Finding(one, about) for one in COMBINATIONS if (about := one.applies(machine))]
    return Diagnosis(
        machine, tuple(sorted(found, key=lambda one: one.combination.weight is not Weight.BROKEN))
    )


def _machine_lines(machine: Machine) -> Iterator[str]:
    driver = machine.driver or "none"
    offers = f", offers CUDA {machine.driver_cuda}" if machine.driver_cuda else ""
    built_for = machine.torch.facts.get("cuda") or machine.torch.facts.get("hip")
    build = f", built for {built_for}" if built_for else ""
    rows = [
        ("system", machine.system),
        *(("GPU", f"{gpu.name} ({gpu.architecture})") for gpu in machine.gpus or ()),
        *([] if machine.gpus else [("GPU", "none")]),
        ("driver", f"{driver}{offers}"),
        ("Python", machine.python),
        ("torch", f"{machine.torch.text}{build}"),
        ("Triton", machine.triton.text),
        ("NumPy", machine.numpy.text),
        ("C compiler", machine.c_compiler or "none"),
    ]
    return (f"{name:<11} {value}" for name, value in rows)


def _finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    if not findings:
        yield f"nothing: none of {len(COMBINATIONS)} known combinations applies"
    for found in findings:
        one = found.combination
        yield f"{one.weight.value}: {found.about} [{one.code}]"
        yield f"  {one.consequence}"
        yield f"  remedy: {one.remedy}"
        yield f"  source: {one.source}"


def consequences(diagnosis: Diagnosis) -> Iterator[str]:
    """What opgen builds, and what the built modules do on this machine."""
    machine, codes = diagnosis.machine, {found.combination.code for found in diagnosis.findings}
    yield "opgen build, check, fmt, explain, targets and advise work: they need none of the above"
    if not (machine.torch.version and machine.triton.version):
        yield "generated modules cannot be imported; opgen vet and opgen bench refuse"
        return
    yield f"opgen vet compiles for all targets with Triton {machine.triton.version}"
    where = "Triton's interpreter (TRITON_INTERPRET=1)" if machine.is_interpreted else "the eager reference"
    yield f"CPU tensors take {where}"
    blocked = {"driver-old", "torch-for-cpu", "torch-without-architecture", "launcher"} & codes
    for gpu in machine.gpus:
        if blocked:
            yield f"{gpu.name}: no kernel runs there ({', '.join(sorted(blocked))})"
        else:
            yield from _gpu_lines(gpu, machine)
    if not machine.gpus:
        yield "no GPU: opgen bench refuses"


def _gpu_lines(gpu: Gpu, machine: Machine) -> Iterator[str]:
    target = nearest_target(gpu.architecture)
    if target is None:
        yield f"{gpu.name}: no target for {gpu.architecture}; its tensors need the `reference` functions"
        return
    own = "" if target.name == gpu.architecture else f", the nearest to {gpu.architecture}"
    yield f"{gpu.name}: elementwise and row kernels with the configs of {target.name}{own}"
    by_kind: dict[str, list[str]] = {}
    for dtype, units in UNITS.items():
        by_kind.setdefault(units[target.name], []).append(dtype)
    for unit, dtypes in by_kind.items():
        yield f"{gpu.name}: {_product_words(unit, dtypes)}"
    if not target.has_f8:
        yield f"{gpu.name}: f8 values are decoded and encoded in integer arithmetic"
    has_them = target.has_descriptors and machine.triton.facts.get("descriptors") is not False
    yield f"{gpu.name}: tensor descriptors {'are used where they win' if has_them else 'are not used'}"


def _product_words(unit: str, dtypes: list[str]) -> str:
    names = ", ".join(
        "f32 (where tf32 is allowed)" if one == "f32" and unit != NO_UNIT else one for one in dtypes
    )
    if unit == REFUSED:
        return f"products of {names} have another spelling or none: Triton's compiler refuses them"
    if unit == NO_UNIT:
        return f"products of {names} use no matrix unit: the library's are faster"
    return f"products of {names} use the matrix unit ({unit})"
