"""The leader's steps, driven by hand: what it does between taking its id and publishing, and in which order."""

import msgspec

from streamlet.ids import Incarnation, Slot, StoreName, TaskId, Term
from streamlet.rebalance.leadership import Fence, Pause, Publish, ReadToEnd, Take, lead, slot_of
from streamlet.rebalance.members import Members, MemberWord, SupervisorWord, WorkerWord
from streamlet.rebalance.records import MANIFEST_KEY, PLAN_KEY, Manifest, Own, OwnKind, Plan
from streamlet.rebalance.view import View

A, B = Incarnation("app-web/0-aa"), Incarnation("app-web/1-bb")
T0 = TaskId("orders", 0)


def worker(incarnation: Incarnation, slot: str) -> WorkerWord:
    return WorkerWord(incarnation, Slot(slot), "web", {"orders": 2})


class Bed:
    """A leader, its clock and what it hears."""

    def __init__(self, *words: MemberWord) -> None:
        self.now, self.view = 100.0, View()
        self.members = Members(listening_since=0.0, heard_at=100.0)
        self.members.hear(words, self.now)
        self.steps = lead("app", lambda: self.members, lambda: self.now)
        self.step = next(self.steps)

    def go(self) -> object:
        """The step at hand is done; the next one."""
        self.step = self.steps.send(self.view)
        return self.step

    def publish(self) -> Plan:
        """The plan at hand is on the topic."""
        assert isinstance(self.step, Publish), self.step
        plan = next(record for key, record in self.step.records if key == PLAN_KEY)
        assert isinstance(plan, Plan)
        self.view.plan = plan
        return plan

    def hear(self, *words: MemberWord, after_s: float = 1.0) -> None:
        self.now += after_s
        self.members.heard_at = self.now
        self.members.hear(words, self.now)


def test_a_leader_takes_its_id_before_it_reads_and_reads_before_it_plans() -> None:
    bed = Bed(worker(A, "web/0"), SupervisorWord("web", "web", alive=(A,)))

    assert bed.step == Take()
    assert bed.go() == ReadToEnd()
    bed.go()

    plan = bed.publish()
    assert (plan.version, plan.members, sorted(plan.tasks)) == (1, (A,), ["orders/0", "orders/1"])
    assert bed.go() == Pause()


def test_a_topic_that_cannot_be_read_to_its_end_is_waited_for() -> None:
    bed = Bed(worker(A, "web/0"), SupervisorWord("web", "web", alive=(A,)))
    bed.go()

    bed.step = bed.steps.send(None)
    assert bed.step == ReadToEnd()
    bed.step = bed.steps.send(None)

    assert bed.step == ReadToEnd()


def test_whoever_holds_the_topic_back_and_is_given_up_is_fenced() -> None:
    bed = Bed(worker(A, "web/0"), worker(B, "web/1"), SupervisorWord("web", "web", alive=(A,), lost=(B,)))
    bed.go()

    bed.step = bed.steps.send(None)

    assert bed.step == Fence(frozenset({B}))
    assert bed.go() == ReadToEnd()


def test_a_lost_worker_is_fenced_and_the_topic_read_again_before_its_tasks_are_given_away() -> None:
    bed = Bed(worker(A, "web/0"), worker(B, "web/1"), SupervisorWord("web", "web", alive=(A, B)))
    bed.go(), bed.go()
    plan = bed.publish()
    assert plan.members == (A, B)
    lost_task = next(TaskId.parse(name) for name, entry in plan.tasks.items() if entry.owner == 1)
    bed.view.own = {lost_task: Own(OwnKind.CLAIM, B, Term(1), {"orders": 0}, {StoreName("total"): 0})}
    assert bed.go() == Pause()

    bed.hear(SupervisorWord("web", "web", alive=(A,), lost=(B,)))
    assert bed.go() == Fence(frozenset({B}))
    assert bed.go() == ReadToEnd()
    bed.go()
    if isinstance(bed.step, Pause):  # it may come back: its slot is waited for
        bed.hear(SupervisorWord("web", "web", alive=(A,), lost=(B,)), after_s=3.0)
        bed.go()

    after = bed.publish()
    assert after.owner(lost_task) == (A, 2)
    assert after.members == (A,)


def test_another_leader_s_plan_ends_the_lead() -> None:
    bed = Bed(worker(A, "web/0"), SupervisorWord("web", "web", alive=(A,)))
    bed.go(), bed.go()
    plan = bed.publish()
    bed.go()

    bed.view.plan = msgspec.structs.replace(plan, version=plan.version + 1)
    bed.hear(SupervisorWord("web", "web", alive=(A,)))

    try:
        bed.go()
    except StopIteration:
        return
    raise AssertionError("it went on leading")


def test_a_manifest_that_a_worker_needs_is_published_with_the_plan_and_only_if_it_follows_the_stored_one() -> None:
    needs = msgspec.structs.replace(worker(A, "web/0"), manifest=b"two", replaces=b"one")
    bed = Bed(needs, SupervisorWord("web", "web", alive=(A,)))
    bed.view.manifest = b"one"
    bed.go(), bed.go()
    assert isinstance(bed.step, Publish)
    assert dict(bed.step.records)[MANIFEST_KEY] == Manifest(b"two")

    stale = Bed(needs, SupervisorWord("web", "web", alive=(A,)))
    stale.view.manifest = b"three"
    stale.go(), stale.go()
    assert stale.step == Pause(), "code that does not fit gets no tasks"


def test_a_slot_is_read_from_an_incarnation() -> None:
    assert slot_of("my-app", Incarnation("my-app-web-1/12-c0ffee")) == "web-1/12"
