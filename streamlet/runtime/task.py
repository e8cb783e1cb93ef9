"""One task: its state, its handlers and how far it has come. No Kafka here: the worker and the test driver both run it.

A task takes records, changes its state cache and fills its outbox; a commit takes the lot, and only then is it real.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from streamlet.changelog.replay import Partition
from streamlet.codecs import codec_for
from streamlet.context import Context
from streamlet.errors import HandlerError, RetryError, StreamletError
from streamlet.handler import AnyTopic
from streamlet.ids import StoreName, TaskId, Term
from streamlet.rebalance.records import OwnKind
from streamlet.runtime.batching import Gatherer
from streamlet.runtime.chain import AnyCodec, Bindings, compile_batch, compile_step
from streamlet.runtime.commit import Part
from streamlet.runtime.incoming import Incoming
from streamlet.runtime.outbox import Outbox, Output
from streamlet.runtime.source_loop import Counts, DeclaredTime, MonotonicClock, Progress, Root, Sleep, SourceLoop
from streamlet.signature import First, ParamKind
from streamlet.state.declaration import View
from streamlet.state.keys import key_encoder, passes_through
from streamlet.state.task_state import TaskState
from streamlet.topology import Node, Source, SubTopology

log = logging.getLogger("streamlet.task")


class Phase(Enum):
    """Where a task is in its life."""

    RESTORED = auto()  # its copy is complete; the next commit carries its claim
    RUNNING = auto()  # claimed: the only writer of its state and changelogs
    PARKED = auto()  # stopped at a record until somebody resumes it
    CLOSED = auto()


NEXT: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.RESTORED: frozenset({Phase.RUNNING, Phase.PARKED, Phase.CLOSED}),
    Phase.RUNNING: frozenset({Phase.PARKED, Phase.CLOSED}),
    Phase.PARKED: frozenset({Phase.RUNNING, Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}

_UNKNOWN_TIME: Final = -1
_WAIT_S: Final = 1.0  # before a record is tried again whose codec or handler said that something is away
COMMIT_TIME: Final = "commit-time-ms"  # beside the data: when the copy was last known to be whole


@dataclass(slots=True)
class Inlet:
    """One source partition of a task: what was fetched and not yet processed, and whether the partition's end was seen."""

    partition: Partition
    loop: SourceLoop
    position: int = 0  # next offset to process
    committed: int = 0  # next offset after the last commit
    passed: set[int] = field(default_factory=set[int])  # offsets that somebody chose to skip, until that is committed
    internal: bool = False  # a repartition topic: nobody else reads it
    waiting: list[Incoming] = field(default_factory=list[Incoming])
    at_end: bool = False
    declared_time: DeclaredTime | None = None  # set where inputs are merged and the topic's records say their own time
    times: list[int | None] = field(default_factory=list[int | None])  # of `waiting`, where `declared_time` is set

    def offer(self, messages: Sequence[Incoming]) -> None:
        """Take fetched records, in order."""
        self.waiting.extend(messages)
        self.at_end = False
        if self.declared_time is not None:
            self.times.extend(map(self.declared_time, messages))

    def drop(self, count: int | None = None) -> None:
        """Forget that many waiting records, or all of them."""
        del self.waiting[:count]
        del self.times[:count]

    def time_of_next(self) -> int:
        """When the first waiting record happened. One that cannot say it yet comes first: the task waits at it."""
        if self.declared_time is None:
            return self.waiting[0].timestamp()[1]
        if self.times[0] is None:
            self.times[0] = self.declared_time(self.waiting[0])
        return _UNKNOWN_TIME if self.times[0] is None else self.times[0]

    def count_until(self, time_ms: int) -> int:
        """How many waiting records happened before or at this time."""
        times = (message.timestamp()[1] for message in self.waiting) if self.declared_time is None else self.times
        return next((index for index, at in enumerate(times) if at is None or at > time_ms), len(self.waiting))


class GoBack(RetryError):
    """The task returned to its last commit: its input has to be fetched again from there."""


class Task:
    """The only writer of its state, its outbox and its positions; driven by one loop."""

    def __init__(
        self,
        task: TaskId,
        term: Term,
        sub: SubTopology,
        state: TaskState,
        *,
        changelog: Mapping[StoreName, int],
        positions: Mapping[Partition, int],
        resources: Mapping[str, object],
        clock: MonotonicClock = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self.id, self.term, self.state = task, term, state
        self.phase = Phase.RESTORED
        self.failure: StreamletError | None = None
        self.counts = Counts()
        self.changelog = dict(changelog)  # next changelog offset of every store
        self.repartition_ends: dict[str, dict[int, int]] = {}
        self.recorded: Mapping[Partition, int] = {}  # positions in the newest commit record
        self.recorded_at = 0.0
        self._limit: tuple[Partition, int, HandlerError] | None = None  # where a failed batch makes the task stop
        self._outbox, self._clock, self._wait_until = Outbox(), clock, 0.0
        context = Context(task=task)
        states = {
            (node.handler.name, param.name): state.handle(param.store.declaration)
            for node in sub.nodes
            for param in node.handler.signature.params
            if param.kind is ParamKind.STATE and param.store is not None
        }
        bindings = Bindings(self._outbox, context, states, resources)
        self.inlets = {
            source.topic.name: Inlet(
                Partition(source.topic.name, task.partition),
                _source_loop(sub, source, task.partition, bindings, state, self.counts, clock, sleep),
                internal=source.repartitions is not None,
            )
            for source in sub.sources
        }
        for inlet in self.inlets.values():
            inlet.position = inlet.committed = positions[inlet.partition]
            inlet.declared_time = inlet.loop.declared_time if len(self.inlets) > 1 else None
        self._began_at = self.positions

    def enter(self, phase: Phase) -> None:
        """Go to another phase of life."""
        assert phase in NEXT[self.phase], f"{self.id} cannot go from {self.phase.name} to {phase.name}"
        self.phase = phase

    @property
    def positions(self) -> dict[Partition, int]:
        """Next offset of every source partition."""
        return {inlet.partition: inlet.position for inlet in self.inlets.values()}

    def consumed_internal(self) -> dict[Partition, int]:
        """Committed positions in topics that only this app reads."""
        return {inlet.partition: inlet.committed for inlet in self.inlets.values() if inlet.internal}

    @property
    def moved(self) -> bool:
        """Whether it has got past the record it began with."""
        return self.positions != self._began_at

    @property
    def drained(self) -> bool:
        """Whether it has processed everything there is."""
        return all(inlet.at_end and not inlet.waiting for inlet in self.inlets.values())

    @property
    def has_work(self) -> bool:
        """Whether anything was processed since the last commit."""
        return any(inlet.position != inlet.committed for inlet in self.inlets.values())

    @property
    def unrecorded(self) -> bool:
        """Whether the newest commit record is behind the last commit."""
        return any(self.recorded.get(inlet.partition) != inlet.committed for inlet in self.inlets.values())

    @property
    def ready(self) -> bool:
        """Whether a fetched record may be processed now."""
        return self._next_inlet() is not None

    def offer(self, topic: str, messages: Sequence[Incoming]) -> None:
        """Take fetched records of one source, in order."""
        self.inlets[topic].offer(messages)

    def run(self, deadline: float) -> StreamletError | None:
        """Process what waits until the deadline; a failure returned stops the task at that record."""
        while (inlet := self._next_inlet()) is not None:
            batch = inlet.waiting if len(self.inlets) == 1 else self._run_of(inlet)
            if inlet.passed:
                batch = _up_to(batch, inlet.passed)
                if not batch:
                    inlet.position = (inlet.waiting[0].offset() or 0) + 1
                    inlet.drop(1)
                    continue
            if self._limit is not None and self._limit[0] == inlet.partition:
                batch = [message for message in batch if (message.offset() or 0) < self._limit[1]]
                if not batch:
                    return self.flush() or self._limit[2]
            progress = inlet.loop.run(batch, deadline)
            if progress.done:
                last = batch[progress.done - 1].offset()
                assert last is not None, "a delivered record has an offset"
                inlet.position = last + 1
                inlet.drop(progress.done)
            self.state.end_batch()
            stop = self._stop(progress)
            if stop is not None or progress.wait is not None:
                return stop
            if progress.done < len(batch) or inlet.loop.late(deadline):
                return None
        return None

    def flush(self) -> StreamletError | None:
        """Before a commit: call the batch handlers with what they hold."""
        for inlet in self.inlets.values():
            progress = inlet.loop.flush()
            self.state.end_batch()
            stop = self._stop(progress)
            if stop is not None:
                return stop
        return None

    def _stop(self, progress: Progress) -> StreamletError | None:
        """What a stopped run means for the task. A batch fails after later records were touched: back to the last commit."""
        failure = progress.failure
        if progress.wait is not None:
            self._wait_until = self._clock() + _WAIT_S
            log.warning("task waits for something its record needs", extra={"task": str(self.id), "reason": str(progress.wait)})
        if progress.rewind:
            self.aborted()
            if failure is not None:  # then stop at the culprit
                self._limit = (Partition(failure.topic, failure.partition), failure.offset, failure)
            return GoBack()
        # what was gathered before the failed record is done before the task stops: its positions are committed
        return None if failure is None else self.flush() or failure

    def filling(self, now: float) -> bool:
        """Whether a batch handler still waits for more records, so that a commit is better made later."""
        return any(inlet.loop.filling(now) for inlet in self.inlets.values())

    def _next_inlet(self) -> Inlet | None:
        """The source whose next record is the oldest; an empty one blocks only while more of it may be on the way."""
        inlets = self.inlets.values()
        if self._wait_until > 0:
            if self._clock() < self._wait_until:
                return None
            self._wait_until = 0.0
        if len(inlets) == 1:
            only = next(iter(inlets))
            return only if only.waiting else None
        if any(not inlet.waiting and not inlet.at_end for inlet in inlets):
            return None
        ready = [inlet for inlet in inlets if inlet.waiting]
        return min(ready, key=Inlet.time_of_next) if ready else None

    def _run_of(self, inlet: Inlet) -> list[Incoming]:
        """The records of one source that come before every other source's next one."""
        others = [other.time_of_next() for other in self.inlets.values() if other is not inlet and other.waiting]
        if not others:
            return list(inlet.waiting)
        return inlet.waiting[: max(1, inlet.count_until(min(others)))]

    def resume(self, *, skip: bool) -> None:
        """Go on after being parked: at the record that stopped the task, or behind it."""
        failed, self.failure, self._limit = self.failure, None, None
        if skip and isinstance(failed, HandlerError):
            inlet = self.inlets[failed.topic]
            inlet.position = failed.offset + 1  # the position itself may be a transaction's marker
            inlet.passed.add(failed.offset)  # an abort brings the record again
        self.enter(Phase.RUNNING)

    def drop_waiting(self) -> None:
        """Forget what was fetched and not processed; it is fetched again when it is wanted."""
        for inlet in self.inlets.values():
            inlet.drop()
            inlet.at_end = False

    def part(self, own: OwnKind | None, *, record: bool) -> Part:
        """What this task brings to a commit."""
        return Part(
            task=self.id,
            term=self.term,
            outbox=self._outbox,
            changes=self.state.changes(),
            positions=self.positions,
            changelog=self.changelog,
            repartition=self.repartition_ends,
            own=own,
            record=record,
        )

    def committed(self, part: Part, now_ms: int) -> None:
        """The commit of `part` succeeded."""
        self._outbox.clear()
        offsets = {store: self.changelog[store] for store in part.changes}
        self.state.committed(offsets, {COMMIT_TIME: str(now_ms).encode()}, now_ms=now_ms)
        for inlet in self.inlets.values():
            inlet.committed = part.positions[inlet.partition]
            inlet.passed = {offset for offset in inlet.passed if offset >= inlet.committed}

    def aborted(self) -> None:
        """Nothing since the last commit has happened."""
        self._outbox.clear()
        self.state.aborted()
        for inlet in self.inlets.values():
            inlet.position = inlet.committed
            inlet.loop.forget()
        self.drop_waiting()

    @property
    def buffered_bytes(self) -> int:
        """About how much the next commit holds, judged by a sample."""
        return _about_bytes(self._outbox.records) + _about_bytes(self._outbox.moved)


def _about_bytes(outputs: Sequence[Output]) -> int:
    sample = outputs[:: max(1, len(outputs) // 64)]
    size = sum(len(value or b"") + len(key or b"") + 32 for _, key, value, _, _ in sample)
    return size * len(outputs) // max(1, len(sample))


def _up_to(batch: Iterable[Incoming], offsets: set[int]) -> list[Incoming]:
    """The records before the first that stands at one of these offsets."""
    return [*itertools.takewhile(lambda message: message.offset() not in offsets, batch)]


def _reachable(sub: SubTopology, roots: Iterable[int]) -> list[Node]:
    """The handlers that a source's records can reach without leaving the task."""
    found: list[int] = []
    ahead = list(roots)
    while ahead:
        index = ahead.pop()
        if index not in found:
            found.append(index)
            ahead.extend(sub.nodes[index].followers)
    return [sub.nodes[index] for index in sorted(found)]


def _asks_for_key(node: Node, key_codec: AnyCodec) -> bool:
    """Whether a handler, or where its output goes, needs the key decoded."""
    signature = node.handler.signature
    return (
        signature.first is First.RECORD
        or node.handler.wiring.keeps_key
        or node.repartition is not None
        or any(param.kind in (ParamKind.KEY, ParamKind.CONTEXT) for param in signature.params)
        or any(topic.key_codec.describe() != key_codec.describe() for topic in node.to)
    )


def _asks_for_context(node: Node) -> bool:
    signature = node.handler.signature
    return signature.first is First.RECORD or any(param.kind is ParamKind.CONTEXT for param in signature.params)


def _keeps_state_by_key(node: Node) -> bool:
    return any(use.declaration.view is View.CURRENT_KEY for use in node.handler.signature.stores)


def _source_loop(
    sub: SubTopology,
    source: Source,
    partition: int,
    bindings: Bindings,
    state: TaskState,
    counts: Counts,
    clock: MonotonicClock,
    sleep: Sleep,
) -> SourceLoop:
    topic = source.topic
    nodes = _reachable(sub, source.roots)
    roots = [
        Root(
            name=sub.nodes[index].handler.name,
            step=compile_step(sub, index, topic.key_codec, bindings),
            policy=sub.nodes[index].handler.wiring.errors,
            admits_null=sub.nodes[index].handler.signature.admits_null,
            needs_key=any(_keeps_state_by_key(node) for node in _reachable(sub, [index])),
        )
        for index in source.roots
        if sub.nodes[index].handler.wiring.batching is None
    ]
    gatherers = [
        Gatherer(
            name=handler.name,
            call=compile_batch(sub, index, bindings),
            policy=handler.wiring.errors,
            size=handler.wiring.batching.size,
            within_s=handler.wiring.batching.within_ms / 1000,
            admits_null=handler.signature.admits_null,
        )
        for index, handler in ((index, sub.nodes[index].handler) for index in source.roots)
        if handler.wiring.batching is not None
    ]
    by_key = any(root.needs_key for root in roots)
    return SourceLoop(
        topic=topic.name,
        partition=partition,
        key_codec=topic.key_codec,
        value_codec=topic.value_codec,
        decode_policy=topic.errors,
        event_time=topic.timestamp,
        roots=roots,
        gatherers=gatherers,
        state_key=_state_key(topic) if by_key else None,
        checks_keys=by_key and source.repartitions is None and topic.key_codec.describe() == codec_for(str).describe(),
        needs_key=any(_asks_for_key(node, topic.key_codec) for node in nodes),
        context=bindings.context if any(_asks_for_context(node) for node in nodes) else None,
        state=state,
        outbox=bindings.outbox,
        counts=counts,
        clock=clock,
        sleep=sleep,
    )


def _state_key(topic: AnyTopic) -> Callable[[object], bytes] | None:
    """How a record's key becomes the state's; None where its bytes are that already."""
    plain = passes_through(topic.key_type) and topic.key_codec.describe() == codec_for(topic.key_type).describe()
    return None if plain else key_encoder(topic.key_type)
