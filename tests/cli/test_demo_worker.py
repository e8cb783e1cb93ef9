"""What the demo reads from its worker's log."""

from streamlet.cli.demo_worker import replayed_in

STARTED = '{"message": "worker started", "tasks": 2}\n'


def restored(records: int) -> str:
    return f'{{"message": "task restored", "records": {records}}}\n'


def test_the_records_of_all_tasks_are_added_up() -> None:
    assert replayed_in(STARTED + restored(33) + "not json\n" + restored(29)) == 62


def test_a_sum_is_not_told_before_every_task_is_restored() -> None:
    assert replayed_in("") is None
    assert replayed_in(STARTED + restored(33)) is None


def test_half_a_line_is_not_read() -> None:
    assert replayed_in(STARTED + restored(33) + restored(29)[:-5]) is None


def test_a_worker_that_had_nothing_to_replay_says_nought() -> None:
    assert replayed_in(STARTED + restored(0) + restored(0)) == 0
