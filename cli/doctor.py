"""`streamlet doctor`: is this machine, and that cluster, fit for an app?"""

import json
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from streamlet.config import command_line_layer
from streamlet.doctor.findings import Finding, Severity, worst

_STYLES: Final = {Severity.OK: "green", Severity.SKIPPED: "dim", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def doctor(
    *,
    brokers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="Brokers to look at. [default: as an app would find them]")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Kafka client property, for SASL and TLS; may be repeated.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The streamlet.toml to read. [default: in this folder]")] = None,
    state_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="The state folder to look at.")] = None,
    app: Annotated[str | None, typer.Option(metavar="NAME", help="Read this app's table in streamlet.toml too.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Write nothing to the cluster: leaves out transactions and clock.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document, for scripts.")] = False,
) -> None:
    """Look at Python, Java, disk, settings and brokers, and say what to do about each trouble.

    Takes a throw-away transactional id and, for the clock, makes a topic that it deletes at once.
    Exit code: 0 all well, 1 warnings, 2 errors.
    """
    from streamlet.doctor.diagnose import Examination, examine

    command_line = command_line_layer({"brokers": brokers, "state_dir": state_dir}, config or [])
    findings = examine(Examination(command_line=command_line, app=app, config_file=config_file, read_only=read_only))
    verdict = worst(findings)
    if as_json:
        typer.echo(json.dumps({"verdict": verdict.value, "findings": [finding.to_json() for finding in findings]}, indent=2))
    else:
        _print(findings)
    raise typer.Exit(verdict.exit_code)


def _print(findings: list[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        line = Text.assemble((f"{finding.severity.value:<8}", _STYLES[finding.severity]), (f"{finding.check:<15}", "bold"), finding.found)
        console.print(line)
        if finding.fix:
            console.print(Text(f"{'':<23}→ {finding.fix}", style="cyan"))
