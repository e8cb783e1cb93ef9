"""Becoming the owner of an app's tasks: read what was promised, lead, fence, publish. One worker per app."""

from collections.abc import Callable, Sequence, Set

from streamlet.changelog.kafka import ClientConfig, LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.errors import FencedError
from streamlet.ids import Incarnation, TaskId, Term
from streamlet.internal_topics import TopicKind
from streamlet.rebalance.kafka import ControlReader, Leader, control_topic, fence
from streamlet.rebalance.records import MANIFEST_KEY, PLAN_KEY, Manifest
from streamlet.rebalance.solo import solo_plan, to_fence
from streamlet.topics.prepare import Survey
from streamlet.topology import Topology


class TakenOver(FencedError):
    """Another worker owns the app's tasks now."""

    def __init__(self, app: str, by: Sequence[Incarnation]) -> None:
        super().__init__(app, tuple(by))
        self.app, self.by = app, tuple(by)

    def __str__(self) -> str:
        return (
            f"Another worker took over '{self.app}' ({', '.join(self.by)}). This one has stopped; nothing was lost. "
            "Run one worker per app, or stop the other one first."
        )


def what_was_promised(client: ClientConfig, topology: Topology, survey: Survey) -> tuple[bytes | None, tuple[str, ...]]:
    """The manifest on the control topic; where there is no control topic, the changelogs that hold records all the same."""
    if control_topic(topology.app) in survey.existing:
        control = ControlReader(client, topology.app)
        try:
            return control.read_to_end().manifest, ()
        finally:
            control.close()
    changelogs = [topic.name for topic in topology.internal if topic.kind is TopicKind.CHANGELOG and topic.name in survey.existing]
    partitions = [Partition(name, number) for name in changelogs for number in range(survey.existing[name].partitions)]
    ends = LogOffsets(client).ends(partitions)
    return None, tuple(name for name in changelogs if any(ends[p] for p in partitions if p.topic == name))


def take_ownership(
    client: ClientConfig,
    app: str,
    incarnation: Incarnation,
    lost: Set[Incarnation],
    control: ControlReader,
    ids: Sequence[TaskId],
    renew: Callable[[bytes | None], bytes | None],
) -> dict[TaskId, Term]:
    """Lead, fence whoever an earlier plan named, read again to the end, publish a plan that names only us.

    `lost` are earlier incarnations of this process: it comes back only if nobody else was named meanwhile. `renew`
    gives the manifest to publish in the same transaction, or None if the stored one holds.
    """
    earlier = control.read_to_end().plan
    if lost and earlier is not None and not lost & set(earlier.members):
        raise TakenOver(app, earlier.members)
    leader = Leader(client, app)
    control.read_to_end()
    for other in to_fence(control.view.plan, incarnation):
        fence(client, other)
    view = control.read_to_end()
    plan = solo_plan(view.plan, view.own, incarnation, ids)
    renewed = renew(view.manifest)
    if renewed is None:
        leader.publish_plan(plan)
    else:
        leader.publish((MANIFEST_KEY, Manifest(renewed)), (PLAN_KEY, plan))
    control.read_to_end()  # from now on a plan in the view that does not name us is a later one
    return {task: plan.tasks[str(task)].term for task in ids}
