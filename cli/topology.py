"""`streamlet topology FILE`: what an app is made of, before anything runs."""

from enum import StrEnum
from typing import Annotated

import typer

from streamlet.describe import describe
from streamlet.loading import load_app
from streamlet.topology import build


class Form(StrEnum):
    """How the topology is printed."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


def topology(
    file: Annotated[str, typer.Argument(metavar="FILE[:APP]", help="The Python file that declares the app.")],
    form: Annotated[Form, typer.Option("--format", help="Text for people, Mermaid for a page, JSON for programs.")] = Form.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show what an app reads, runs, keeps and writes. Needs no broker."""
    typer.echo(describe(build(load_app(file)), "json" if as_json else form.value), nl=False)
