"""What the demo shows fits on a terminal and says the same as the plain lines."""

from io import StringIO

from rich.console import Console

from streamlet.cli.demo_screen import LiveScreen, Moment, PlainScreen, draw, screen_for

MOMENT = Moment((("the", 1352), ("river", 676)), 11_001, 8_653, 61.2, "worker 12", True, "Words are counted.")


def test_the_table_has_words_with_bars_in_proportion_then_the_numbers_then_what_happens() -> None:
    console = Console(width=100, file=StringIO(), record=True)

    console.print(draw(MOMENT))

    lines = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
    assert lines == [
        "word            count",
        "the             1,352  ████████████████████████████████",
        "river             676  ████████████████",
        "● worker 12   fed 11,001 words   counted 8,653   waiting 2,348   61 records/s",
        "Words are counted.",
    ]


def test_plain_lines_carry_the_numbers_and_the_first_words() -> None:
    output = StringIO()

    with PlainScreen(Console(file=output, width=20)) as screen:
        screen.say("Worker [12] started")
        screen.show(MOMENT)

    assert output.getvalue().splitlines() == [
        "  0.0 s  Worker [12] started",
        "  0.0 s  fed 11,001 words   counted 8,653   waiting 2,348   61 records/s   the=1352 river=676",
    ]


def test_a_terminal_gets_the_table_and_a_pipe_gets_lines() -> None:
    assert isinstance(screen_for(Console(force_terminal=True, file=StringIO())), LiveScreen)
    assert isinstance(screen_for(Console(force_terminal=False, file=StringIO())), PlainScreen)
