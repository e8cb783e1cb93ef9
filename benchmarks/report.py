"""What a benchmark says in the end: a table for people, or one JSON object on the last line, from the same figures."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Number = int | float


@dataclass(slots=True)
class Report:
    """All figures of one invocation. Written by the benchmark's main function only."""

    bench: str
    unit: str
    runs: dict[str, list[float]] = field(default_factory=dict)  # per contestant, in the order they ran
    ratios: dict[str, Number] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, contestant: str, value: float) -> None:
        self.runs.setdefault(contestant, []).append(value)

    def median(self, contestant: str) -> float | None:
        return statistics.median(self.runs[contestant]) if self.runs.get(contestant) else None

    def ratio(self, name: str, above: float | None, below: float | None) -> None:
        """Keep above/below under `name`; nothing is kept when one side was not measured."""
        if above is not None and below:
            self.ratios[name] = round(above / below, 3)

    def to_json(self, machine: Mapping[str, object]) -> str:
        figures = {
            "unit": self.unit,
            "median": {name: _short(statistics.median(values)) for name, values in self.runs.items()},
            "runs": {name: [_short(value) for value in values] for name, values in self.runs.items()},
            **self.figures,
            "notes": self.notes,
        }
        return json.dumps({"bench": self.bench, "ratios": self.ratios, "figures": figures, "machine": machine})

    def to_table(self, machine: Mapping[str, object]) -> str:
        rows = [("", f"median {self.unit}", "all runs")]
        rows += [
            (name, f"{_short(statistics.median(values)):,}", "  ".join(f"{_short(value):,}" for value in values))
            for name, values in self.runs.items()
        ]
        lines = [self.bench, "", *_columns(rows)]
        if self.ratios:
            lines += ["", *_columns([(name, str(value)) for name, value in self.ratios.items()])]
        if self.figures:
            lines += ["", *_columns([(name, json.dumps(value)) for name, value in self.figures.items()])]
        lines += ["", ", ".join(f"{name} {value}" for name, value in machine.items()), *(f"note: {note}" for note in self.notes)]
        return "\n".join(lines)


def _short(value: float) -> Number:
    return round(value) if abs(value) >= 1000 else round(value, 3)


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def machine_facts() -> dict[str, object]:
    """What the absolute figures depend on."""
    from importlib.metadata import version

    import psutil

    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("confluent-kafka", "rocksdict")},
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in facts.read_text().splitlines() if line.startswith("model name")]
        if facts.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()
