"""The demo's books notice every kind of wrong count."""

from streamlet.cli.demo_ledger import Flaw, Ledger


def fed(*lines: str) -> Ledger:
    ledger = Ledger()
    for line in lines:
        ledger.feed(line)
    return ledger


def test_counts_that_go_up_one_by_one_to_what_was_fed_are_right() -> None:
    ledger = fed("drop after drop")

    for word, count in [("drop", 1), ("after", 1), ("drop", 2)]:
        ledger.see(word, count)

    assert ledger.is_complete
    assert ledger.flaws() == []
    assert (ledger.lines, ledger.words_fed, ledger.words_counted) == (1, 3, 3)


def test_a_count_that_comes_twice_is_a_flaw_although_the_last_number_is_right() -> None:
    ledger = fed("drop after drop")

    for word, count in [("drop", 1), ("drop", 1), ("drop", 2), ("after", 1)]:
        ledger.see(word, count)

    assert ledger.is_complete
    assert ledger.flaws() == [Flaw("drop", expected=2, found=1)]


def test_a_count_that_is_left_out_is_a_flaw() -> None:
    ledger = fed("drop drop drop")

    for count in (1, 3):
        ledger.see("drop", count)

    assert ledger.flaws() == [Flaw("drop", expected=2, found=3)]


def test_a_word_that_is_never_counted_is_waited_for_and_a_flaw_if_it_does_not_come() -> None:
    ledger = fed("drop after")

    ledger.see("drop", 1)

    assert not ledger.is_complete
    assert ledger.flaws() == [Flaw("after", expected=1, found=0)]


def test_a_word_that_was_never_fed_is_a_flaw() -> None:
    ledger = fed("drop")

    for word in ("drop", "stone"):
        ledger.see(word, 1)

    assert ledger.is_complete
    assert [str(flaw) for flaw in ledger.flaws()] == ["'stone': 1 instead of 0"]
