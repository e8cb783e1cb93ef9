"""Running an app in this process: topics, ownership, tasks, loop. Each step is one function; `run_app` is their order."""

import contextlib
import logging
import shutil
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from streamlet.app import App, Guarantee
from streamlet.changelog.bulk import BulkRestore
from streamlet.changelog.kafka import ClientConfig, LogOffsets, ReplayConsumer
from streamlet.changelog.replay import CopyVerdict, Partition, Replay, judge_copy
from streamlet.config import Layer, Settings, code_layer, command_line_layer
from streamlet.config_file import load
from streamlet.errors import FencedError, RetryError
from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.internal_topics import changelog_name
from streamlet.partitioning import tasks
from streamlet.rebalance.kafka import ControlReader, Leader, fence
from streamlet.rebalance.records import Own
from streamlet.rebalance.solo import solo_plan, to_fence
from streamlet.resource import opened
from streamlet.runtime.commit import CommitTopics
from streamlet.runtime.kafka import BrokerWatch, InputConsumer, PlainOutlet, ProducerLost, TransactionalProducer
from streamlet.runtime.partitioner import Partitioner
from streamlet.runtime.restoring import Restorer, StoreReplay
from streamlet.runtime.slots import Seat, take_seat
from streamlet.runtime.task import COMMIT_TIME, Task
from streamlet.runtime.worker import OffsetLost, Silent, StopRequest, Worker
from streamlet.state.backend import Backend
from streamlet.state.errors import FolderUnusable
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.task_state import TaskState
from streamlet.topics.kafka import Topics
from streamlet.topics.prepare import Prepared, prepare_topics
from streamlet.topology import SubTopology, Topology, build

log = logging.getLogger("streamlet.run")

_DELETE_RETENTION_MS: Final = 86_400_000  # Kafka's default, which our changelogs keep


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


@dataclass(frozen=True, slots=True)
class Run:
    """What every incarnation of a worker in this process shares."""

    topology: Topology
    settings: Settings
    client: ClientConfig
    prepared: Prepared
    seat: Seat
    resources: Mapping[str, object]
    guarantee: Guarantee


def settings_for(app: App, given: Layer, config_file: Path | None = None) -> Settings:
    """What an app runs with: what was given on the command line, then environment, file, code and defaults."""
    code = code_layer(brokers=app.brokers, commit=app.commit.setting if app.commit is not None else None)
    return load(app.name, given, code, config_file=config_file)


def run_app(app: App, settings: Settings | None = None, *, create_missing: bool = False, file: str | None = None) -> None:
    """Run an app in this process until a signal asks it to stop.

    A worker that lost its id but not its tasks comes back under a new one.
    """
    settings = settings or settings_for(app, command_line_layer({}))
    topology, client = build(app), settings.connection.client_config
    for topic in topology.topics:
        topic.key_codec.prepare()
        topic.value_codec.prepare()
    for warning in topology.warnings:
        log.warning("declaration", extra={"hint": warning})
    stop = StopRequest()
    with _signals(stop), ExitStack() as stack:
        topics = Topics(client)
        topics.wait_for_broker(30.0)
        prepared = prepare_topics(topology, topics, create_missing=create_missing, file=file)
        seat = stack.enter_context(take_seat(settings.storage.state_dir, topology.app))
        resources = {resource.name: stack.enter_context(opened(resource)) for resource in topology.resources}
        run = Run(topology, settings, client, prepared, seat, resources, app.guarantee)
        _run_incarnations(run, stop)


def _run_incarnations(run: Run, stop: StopRequest) -> None:
    """One incarnation after the other, until asked to stop or until another worker owns the tasks."""
    lost: Incarnation | None = None
    while not stop.requested:
        incarnation = run.seat.new_incarnation(run.topology.app)
        try:
            _run_incarnation(run, incarnation, lost, stop)
        except ProducerLost as why:
            lost = incarnation
            log.warning("worker lost its id; coming back under a new one", extra={"incarnation": incarnation, "reason": why.why})
        except RetryError as away:
            if lost is None:
                raise  # it never worked: better said than tried for ever
            log.warning("cannot come back yet; trying on", extra={"reason": str(away)})


def _run_incarnation(run: Run, incarnation: Incarnation, lost: Incarnation | None, stop: StopRequest) -> None:
    topology, client, watch, offsets = run.topology, run.client, BrokerWatch(), LogOffsets(run.client)
    ids = tasks(topology, run.prepared.sizes)
    with ExitStack() as stack:
        control = ControlReader(client, topology.app)
        stack.callback(control.close)
        terms = take_ownership(client, topology.app, incarnation, lost, control, ids)
        producer = TransactionalProducer(client, incarnation, watch)
        stack.callback(producer.close)
        outlet = PlainOutlet(client, watch) if run.guarantee == "at-least-once" else producer
        consumer = InputConsumer(client, topology.app, watch)
        stack.callback(consumer.close)
        replay = ReplayConsumer(client, topology.app)
        stack.callback(replay.close)
        restorer = Restorer(replay, lambda job: BulkRestore(job, client, topology.app, run.seat.folder / "bulk"))
        stack.callback(restorer.close)
        positions = input_positions(offsets, topology, ids, consumer, control.view.own)
        changelogs = [partition for task in ids for partition in changelog_partitions(topology, task).values()]
        starts, ends = offsets.starts(changelogs), offsets.ends(changelogs)
        copies = {task: open_copy(run, task, starts, ends, stack) for task in ids}
        for task, copy in copies.items():
            restorer.add(task, copy.replays)
        log.info(
            "worker started", extra={"app": topology.app, "incarnation": incarnation, "tasks": len(ids), "folder": str(run.seat.folder)}
        )
        Worker(
            open_task=lambda task: open_task(run, task, terms[task], copies[task], positions),
            consumer=consumer,
            producer=producer,
            outlet=outlet,
            purge=Topics(client).delete_below,
            control=control,
            restorer=restorer,
            topics=CommitTopics(topology.app, run.prepared.counts[f"{topology.app}-commits"]),
            partitioner=Partitioner(run.prepared.counts),
            commit_interval_s=run.settings.commit.interval_ms / 1000,
            stop=stop,
            observer=Silent(),
            ends=lambda partition: (offsets.starts([partition])[partition], offsets.ends([partition])[partition]),
        ).run()


def take_ownership(
    client: ClientConfig, app: str, incarnation: Incarnation, lost: Incarnation | None, control: ControlReader, ids: Sequence[TaskId]
) -> dict[TaskId, Term]:
    """Lead, fence whoever an earlier plan named, read again to the end, publish a plan that names only us.

    A worker that comes back after it lost its id does so only if nobody else was named meanwhile.
    """
    plan = control.read_to_end().plan
    if lost is not None and plan is not None and lost not in plan.members:
        raise TakenOver(app, plan.members)
    leader = Leader(client, app)
    control.read_to_end()
    for other in to_fence(control.view.plan, incarnation):
        fence(client, other)
    view = control.read_to_end()
    plan = solo_plan(view.plan, view.own, incarnation, ids)
    leader.publish_plan(plan)
    return {task: plan.tasks[str(task)].term for task in ids}


def changelog_partitions(topology: Topology, task: TaskId) -> dict[StoreName, Partition]:
    """The changelog partition of each of a task's stores."""
    return {spec.name: Partition(changelog_name(topology.app, spec.name), task.partition) for spec in topology.sub(task.name).stores}


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A task's stores on this machine and what is left to replay into them."""

    backend: Backend
    replays: tuple[StoreReplay, ...]


def open_copy(run: Run, task: TaskId, starts: Mapping[Partition, int], ends: Mapping[Partition, int], stack: ExitStack) -> LocalCopy:
    """Open a task's local copy; one that cannot be continued is set aside and replayed from the changelog's start."""
    sub, place = run.topology.sub(task.name), run.seat.folder / task.name / str(task.partition)
    partitions = changelog_partitions(run.topology, task)
    backend = _open_backend(place, sub)
    verdicts = {
        judge_copy(
            offset=backend.offset(name),
            log_start=starts[partition],
            target=ends[partition],
            copy_time_ms=int(found) if (found := backend.meta(COMMIT_TIME)) else None,
            now_ms=int(time.time() * 1000),
            delete_retention_ms=_DELETE_RETENTION_MS,
        )
        for name, partition in partitions.items()
    }
    unusable = verdicts & {CopyVerdict.OUT_OF_RANGE, CopyVerdict.TOO_OLD}
    if unusable:
        backend.close()
        _set_aside(place, ", ".join(sorted(verdict.name.lower() for verdict in unusable)))
        backend = _open_backend(place, sub)
    stack.callback(backend.close)
    offsets = {name: backend.offset(name) for name in partitions}
    return LocalCopy(
        backend,
        tuple(
            StoreReplay(
                task, name, backend, Replay(partition, max(offsets[name] or 0, starts[partition]), ends[partition]), offsets[name] is None
            )
            for name, partition in partitions.items()
        ),
    )


def open_task(run: Run, task: TaskId, term: Term, copy: LocalCopy, positions: Mapping[Partition, int | OffsetLost]) -> Task | OffsetLost:
    """A restored task, ready to claim; or the reason why its input cannot go on."""
    sub, found = run.topology.sub(task.name), dict[Partition, int]()
    for source in sub.sources:
        partition = Partition(source.topic.name, task.partition)
        position = positions[partition]
        if isinstance(position, OffsetLost):
            return position
        found[partition] = position
    return Task(
        task,
        term,
        sub,
        TaskState(sub.stores, copy.backend),
        changelog={item.store: item.replay.offset for item in copy.replays},
        positions=found,
        resources=run.resources,
    )


def _open_backend(place: Path, sub: SubTopology) -> RocksBackend:
    names = [spec.name for spec in sub.stores]
    try:
        return RocksBackend.open(place, names)
    except FolderUnusable as error:
        _set_aside(place, str(error))
        return RocksBackend.open(place, names)


def _set_aside(place: Path, why: str) -> None:
    """Keep one unusable copy for whoever wants to look; the changelog is the truth."""
    aside = place.with_name(f"{place.name}.aside")
    shutil.rmtree(aside, ignore_errors=True)
    place.rename(aside)
    log.warning("local copy set aside; the changelog is replayed", extra={"copy": str(aside), "reason": why})


def input_positions(
    offsets: LogOffsets, topology: Topology, ids: Sequence[TaskId], consumer: InputConsumer, own: Mapping[TaskId, Own]
) -> dict[Partition, int | OffsetLost]:
    """Where each task's input goes on: the committed offset; the declared start only for a task that never ran."""
    sources = [(task, source.topic) for task in ids for source in topology.sub(task.name).sources]
    partitions = [Partition(topic.name, task.partition) for task, topic in sources]
    committed = consumer.committed(partitions)
    oldest, newest = offsets.starts(partitions), offsets.ends(partitions)
    found: dict[Partition, int | OffsetLost] = {}
    for (task, topic), partition in zip(sources, partitions, strict=True):
        offset = committed[partition]
        if offset is None and task not in own:
            offset = newest[partition] if topic.start == "latest" else oldest[partition]
        lost = offset is None or not oldest[partition] <= offset <= newest[partition]
        found[partition] = OffsetLost(task, partition, offset, oldest[partition], newest[partition]) if lost or offset is None else offset
    return found


@contextlib.contextmanager
def _signals(stop: StopRequest) -> Generator[None]:
    """The first signal asks for the last commit, the second ends at once."""

    def ask(number: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise SystemExit(128 + number)
        stop.requested = True
        log.info("stopping after the last commit; once more stops at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
