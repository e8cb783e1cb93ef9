"""Running an app in this process: topics, ownership, tasks, loop. Each step is one function; `run_app` is their order."""

import logging
import os
import shutil
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamlet.app import App, Guarantee
from streamlet.changelog.bulk import BulkRestore
from streamlet.changelog.kafka import BrokerUnavailable, ClientConfig, Inquiry, LogOffsets, ReplayConsumer, admin_client
from streamlet.changelog.replay import ChangelogGap, Partition
from streamlet.config import Layer, Settings, code_layer, command_line_layer
from streamlet.config_file import load
from streamlet.errors import RetryError, StreamletError
from streamlet.ids import Incarnation
from streamlet.metrics.http import serving
from streamlet.metrics.meter import Meter, Stage, input_lag
from streamlet.partitioning import tasks
from streamlet.rebalance.kafka import ControlReader, MembersVoice
from streamlet.resource import opened
from streamlet.runtime.bounds import CommitBounds
from streamlet.runtime.child import CHILD, ChildHome, end_with_supervisor
from streamlet.runtime.commit import CommitTopics
from streamlet.runtime.copies import set_aside
from streamlet.runtime.holdings import Holdings, Ready
from streamlet.runtime.home import Home, at_home
from streamlet.runtime.kafka import BrokerWatch, InputConsumer, PlainOutlet, ProducerLost, TransactionalProducer
from streamlet.runtime.partitioner import Partitioner
from streamlet.runtime.post import WorkerPost
from streamlet.runtime.progress import LoggedRestore, RestoreView, RestoreWatch
from streamlet.runtime.promises import check_promises, renew_promises, what_was_promised
from streamlet.runtime.restoring import Restorer
from streamlet.runtime.slots import Seat, take_seat
from streamlet.runtime.stopping import StopRequest, stopped_by_signals
from streamlet.runtime.task import Task
from streamlet.runtime.worker import Worker
from streamlet.state.errors import FolderUnusable, WriteFailed
from streamlet.state.rocksdb import shared_memory
from streamlet.state.task_state import TaskState
from streamlet.topics.kafka import Topics
from streamlet.topics.prepare import Prepared, create_topics, survey_topics
from streamlet.topology import Topology, build

log = logging.getLogger("streamlet.run")

_FIRST_ANSWER_S: Final = 30.0
_AGAIN_S: Final = 0.5


def settings_for(app: App, given: Layer, config_file: Path | None = None) -> Settings:
    """What an app runs with: what was given on the command line, then environment, file, code and defaults."""
    code = code_layer(brokers=app.brokers, commit=app.commit.setting if app.commit is not None else None)
    return load(app.name, given, code, config_file=config_file)


def run_app(
    app: App,
    settings: Settings | None = None,
    *,
    create_missing: bool = False,
    file: str | None = None,
    accepted: Collection[str] = (),
    restore_view: RestoreView | None = None,
) -> None:
    """Run an app in this process until a signal asks it to stop.

    `accepted` are stores and topics whose change, refused otherwise, a person has agreed to. The process is a member of
    the app on its own, or a supervisor's child where the environment says so.
    """
    settings = settings or settings_for(app, command_line_layer({}))
    topology, client, stop = build(app), settings.connection.client_config, StopRequest()
    for topic in topology.topics:
        topic.key_codec.prepare()
        topic.value_codec.prepare()
    for warning in topology.warnings:
        log.warning("declaration", extra={"hint": warning})
    meter = Meter(topology.app, shared_memory().usage)
    with stopped_by_signals(stop), ExitStack() as stack:
        if CHILD in os.environ:
            end_with_supervisor(stop)
        if settings.http is not None:
            log.info("endpoint", extra={"http": f"http://{stack.enter_context(serving(settings.http, meter))}"})
        topics = Topics(client)
        if not _wait_for_brokers(topics, stop, at_most_s=_FIRST_ANSWER_S):
            return
        survey = survey_topics(topology, topics, create_missing=create_missing, file=file)
        stored, filled = what_was_promised(client, topology, survey)
        check_promises(stored, topology, survey, accepted, filled_changelogs=filled)
        seat = stack.enter_context(take_seat(settings.storage.state_dir, topology.app))
        prepared = create_topics(topology, topics, survey)
        resources = {resource.name: stack.enter_context(opened(resource)) for resource in topology.resources}
        view = restore_view or LoggedRestore()
        home: Home | None = ChildHome.found(os.environ, seat.slot)
        if home is None:
            home = stack.enter_context(at_home(client, topology.app, seat, settings))
        run = Run(topology, settings, client, prepared, seat, resources, app.guarantee, meter, frozenset(accepted), view, home)
        _run_incarnations(run, topics, stop)


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
    meter: Meter
    accepted: frozenset[str]
    restore_view: RestoreView
    home: Home


def _run_incarnations(run: Run, topics: Topics, stop: StopRequest) -> None:
    """One incarnation after the other, until asked to stop."""
    lives = 0
    while not stop.requested:
        incarnation = run.seat.new_incarnation(run.topology.app)
        lives += 1
        try:
            _run_incarnation(run, incarnation, stop)
        except ChangelogGap as gap:
            log.warning("changelog moved away under a replay; starting over", extra={"reason": str(gap)})
        except FolderUnusable as damaged:
            set_aside(damaged.folder, str(damaged))
        except (ProducerLost, RetryError) as why:
            if isinstance(why, WriteFailed) or (lives == 1 and isinstance(why, RetryError)):
                raise  # a full disk, or it never worked: better said than tried for ever
            run.meter.enters(Stage.WAITING)
            _say_lost(incarnation, why, stop)
            if isinstance(why, RetryError):
                time.sleep(_AGAIN_S)
            _wait_for_brokers(topics, stop)


def _say_lost(incarnation: Incarnation, why: StreamletError, stop: StopRequest) -> None:
    if stop.requested:
        log.warning("stopped without a last commit; the next start goes on from the one before", extra={"reason": str(why)})
    elif isinstance(why, ProducerLost):
        log.warning("worker lost its id; coming back under a new one", extra={"incarnation": incarnation, "reason": why.why})
    else:
        log.warning("cannot come back yet; trying on", extra={"reason": str(why)})


def _wait_for_brokers(topics: Topics, stop: StopRequest, at_most_s: float | None = None) -> bool:
    """True when a broker answers, False when a stop was asked; at the first start there is a limit, as the address may be wrong."""
    began, said = time.monotonic(), False
    while not stop.requested:
        try:
            topics.wait_for_broker(0.0)
        except BrokerUnavailable as away:
            waited_s = time.monotonic() - began
            if at_most_s is not None and waited_s > at_most_s:
                raise
            if not said and at_most_s is not None:  # later on the worker's own clients have said so
                said = True
                log.warning("no broker answers; trying on", extra={"brokers": away.brokers, "reason": away.why})
        else:
            return True
    return False


def _run_incarnation(run: Run, incarnation: Incarnation, stop: StopRequest) -> None:
    topology, client, watch, offsets = run.topology, run.client, BrokerWatch(), LogOffsets(run.client)
    ids = tasks(topology, run.prepared.sizes)
    with ExitStack() as stack:
        control = ControlReader(client, topology.app)
        stack.callback(control.close)
        producer = TransactionalProducer(client, incarnation, watch, hurry=lambda: stop.is_overdue)  # from now on it can be fenced
        stack.callback(producer.close)
        outlet = PlainOutlet(client, watch) if run.guarantee == "at-least-once" else producer
        consumer = InputConsumer(client, topology.app, watch)
        stack.callback(consumer.close)
        run.meter.starts(incarnation, consumer.known_ends)
        replay = ReplayConsumer(client, topology.app)
        stack.callback(replay.close)
        warm = [Partition(f"{topology.app}-commits", number) for number in range(run.prepared.counts[f"{topology.app}-commits"])]
        consumer.keep_warm(warm)
        replay.keep_warm(warm)
        bulk = run.seat.folder / ".bulk"  # no task has such a name
        shutil.rmtree(bulk, ignore_errors=True)  # what a killed worker left
        restorer = Restorer(replay, lambda job: BulkRestore(job, client, topology.app, bulk), RestoreWatch(run.restore_view))
        stack.callback(restorer.close)
        admin = admin_client(client)
        holdings = Holdings(
            topology,
            run.seat.folder,
            run.prepared.topic_ids,
            restorer,
            lambda sources, logs: Inquiry(admin, client, topology.app, sources, logs),
        )
        stack.callback(holdings.close)
        post = WorkerPost(
            MembersVoice(client, topology.app),
            incarnation,
            run.seat.slot,
            run.home.supervisor,
            run.prepared.sizes,
            needs=lambda stored: _renewed(run, stored),
            known_lags=lambda task: input_lag(task, consumer.known_ends([inlet.partition for inlet in task.inlets.values()])),
            may_go=lambda worker: run.home.may_go(incarnation, worker, stop),
        )
        worker = Worker(
            open_task=lambda ready: open_task(run, ready),
            holdings=holdings,
            post=post,
            consumer=consumer,
            producer=producer,
            outlet=outlet,
            purge=Topics(client).delete_below,
            control=control,
            topics=CommitTopics(topology.app, run.prepared.counts[f"{topology.app}-commits"]),
            partitioner=Partitioner(run.prepared.counts),
            bounds=CommitBounds.of(run.settings),
            stop=stop,
            observer=run.meter,
            ends=lambda partition: (offsets.starts([partition])[partition], offsets.ends([partition])[partition]),
        )
        run.home.begins(incarnation)
        stack.callback(run.home.ends, incarnation)
        facts = {"app": topology.app, "incarnation": incarnation, "tasks": len(ids), "folder": str(run.seat.folder)}
        log.info("worker started", extra=facts)
        run.meter.enters(Stage.RUNNING)
        worker.run()


def _renewed(run: Run, stored: bytes | None) -> bytes | None:
    """The manifest to publish, if this code or its topics say something new."""
    renewed = renew_promises(stored, run.topology, run.prepared, run.accepted)
    if renewed is None:
        return None
    log.info("manifest is new", extra={"version": renewed.version, "news": "; ".join(renewed.news) or "first start"})
    return renewed.content


def open_task(run: Run, ready: Ready) -> Task:
    """A task whose copy is complete, ready to claim."""
    sub = run.topology.sub(ready.task.name)
    state = TaskState(sub.stores, ready.copy.backend)
    return Task(ready.task, ready.term, sub, state, changelog=ready.changelog, positions=ready.positions, resources=run.resources)
