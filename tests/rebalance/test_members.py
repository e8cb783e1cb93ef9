"""Who counts as there, as lost and as leaving, by what supervisors say and when it was heard."""

from streamlet.ids import Incarnation, Slot
from streamlet.rebalance.members import SILENCE_S, Members, SupervisorWord, WorkerWord, decode_word, encode_word, member_key

A, B = Incarnation("app-web/0-aa"), Incarnation("app-web/1-bb")


def worker(incarnation: Incarnation) -> WorkerWord:
    return WorkerWord(incarnation, Slot("web/0"), "web", {"orders": 4})


def supervisor(*alive: Incarnation, lost: tuple[Incarnation, ...] = (), **told: bool) -> SupervisorWord:
    return SupervisorWord("web", "web", alive=alive, lost=lost, **told)


def listening(words: list[WorkerWord | SupervisorWord], until: float) -> Members:
    """One who heard these words at 10 and has listened without a break until then."""
    members = Members(listening_since=0.0, heard_at=10.0)
    members.hear(words, 10.0)
    moment = 10.0
    while moment < until:
        moment = min(until, moment + 0.25)
        members.hear([], moment)
    return members


def test_words_are_read_as_they_were_written_and_strange_ones_passed_over() -> None:
    for word in (worker(A), supervisor(A, lost=(B,))):
        assert decode_word(member_key(word), encode_word(word)) == word
    assert decode_word(b"worker/x", b"\x09new") is None
    assert decode_word(b"worker/x", b"\x01\xc1") is None
    assert decode_word(b"else/x", b"\x01") is None


def test_a_worker_lives_while_its_supervisor_vouches_for_it_however_silent_it_is_itself() -> None:
    members = listening([worker(A), supervisor(A)], 10.0)
    for moment in (11.0, 12.0, 13.0, 14.0):
        members.hear([], moment - 0.5)
        members.hear([supervisor(A)], moment)

    assert list(members.living(14.0)) == [A]
    assert members.lost([A], 14.0) == frozenset()


def test_the_supervisor_s_word_gives_a_worker_up_at_once() -> None:
    members = listening([worker(A), worker(B), supervisor(A, lost=(B,))], 10.0)

    assert members.lost([A, B], 10.0) == {B}
    assert list(members.living(10.0)) == [A]


def test_a_machine_of_the_same_name_cannot_declare_another_s_worker_dead() -> None:
    here = SupervisorWord("web-1", "web", place="here", alive=(A,))
    there = SupervisorWord("web-2", "web", place="there", lost=(A,))
    successor = SupervisorWord("web-3", "web", place="here", lost=(A,))

    assert listening([worker(A), here, there], 10.0).lost([A], 10.0) == frozenset()
    assert listening([worker(A), here, successor], 10.0).lost([A], 10.0) == {A}, "it holds the same folder's lock"


def test_a_silent_supervisor_takes_its_workers_with_it() -> None:
    members = listening([worker(A), supervisor(A)], 10.0 + SILENCE_S + 0.1)

    assert members.lost([A], 10.0 + SILENCE_S) == frozenset()
    assert members.lost([A], 10.0 + SILENCE_S + 0.1) == {A}


def test_whoever_has_not_listened_cannot_tell_who_was_silent() -> None:
    members = listening([worker(A), supervisor(A)], 10.0)

    members.hear([], 60.0)  # a break of fifty seconds

    assert members.lost([A], 60.0) == frozenset()
    assert list(members.living(60.0)) == [A]
    assert members.quiet_for(60.0) == 0.0


def test_while_the_brokers_are_away_everybody_is_silent_and_nobody_is_dead() -> None:
    me, other = SupervisorWord("me", "here"), SupervisorWord("web", "web", alive=(A,), leads=True)
    members = Members(listening_since=0.0, me="me", heard_at=10.0)
    members.hear([worker(A), me, other], 10.0)

    for moment in range(11, 70):
        members.hear([], float(moment))
    assert members.lost([A], 69.0) == frozenset()
    assert members.quiet_for(69.0) < 1.0

    members.hear([me], 70.0)  # they are back; the other one has not reconnected yet
    assert members.lost([A], 70.0) == frozenset()
    for moment in (70.5, 71.0, 71.5, 72.0):
        members.hear([me], moment)
    assert members.lost([A], 72.0) == {A}, "it had the time to speak"


def test_one_that_nobody_vouches_for_counts_as_lost_only_after_listening_long_enough() -> None:
    members = listening([supervisor(A)], 10.0)
    members.listening_since = 9.5

    assert members.lost([B], 10.0) == frozenset()
    members.listening_since = 0.0
    assert members.lost([B], 10.0) == {B}


def test_a_last_word_ends_everything_at_once() -> None:
    members = listening([worker(A), supervisor(A, leads=True), supervisor(A, ended=True)], 10.0)

    assert members.living(10.0) == {}
    assert members.lost([A], 10.0) == {A}
    assert members.quiet_for(10.0) == 10.0


def test_who_has_been_gone_for_long_is_forgotten() -> None:
    members = listening([worker(A), supervisor(A)], 10.0)

    members.forget(1000.0)

    assert (members.supervisors, members.workers) == ({}, {})
