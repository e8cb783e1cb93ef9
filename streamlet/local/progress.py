"""Shows a download: a bar on a terminal, two plain lines elsewhere. Everything goes to stderr, so that output stays clean."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What a download reports."""

    def advance(self, size: int) -> None:
        """So many bytes more have arrived."""
        ...

    def file_done(self) -> None:
        """One file is complete and checked."""
        ...


class Silent:
    """Shows nothing."""

    def advance(self, size: int) -> None:
        """Ignored."""

    def file_done(self) -> None:
        """Ignored."""


@contextmanager
def show_download(title: str, *, files: int, size: int) -> Generator[Progress]:
    """Show a download of so many files and bytes while the block runs."""
    if not sys.stderr.isatty():
        _say(f"{title}: {files} files, {size / 1e6:.0f} MB")
        yield Silent()
        _say(f"{title}: done")
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[done]}/{task.fields[files]} files"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=size, done=0, files=files)

    class Shown:
        done = 0

        def advance(self, size: int) -> None:
            bar.advance(task, size)

        def file_done(self) -> None:
            self.done += 1
            bar.update(task, done=self.done)

    with bar:
        yield Shown()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
