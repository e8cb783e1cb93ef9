"""An app under test, without a broker: send records, read what comes out, look at state, crash, go on.

It runs production's task code and commit over logs and stores in memory, so what it shows is what a worker does.
Time stands still unless the test moves it.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, cast, overload

from streamlet.app import App
from streamlet.commit import Commit
from streamlet.declaration import DeclarationError
from streamlet.durations import Duration, duration_ms
from streamlet.handler import AnyTopic, Handler
from streamlet.ids import TaskId
from streamlet.murmur2 import partition_for
from streamlet.partitioning import internal_partitions, plan_partitions
from streamlet.record import Headers, Record
from streamlet.resource import Resource, opened
from streamlet.runtime.chain import encoder
from streamlet.runtime.task import Phase
from streamlet.state.by_key import ByKey
from streamlet.state.declaration import Declaration, View
from streamlet.state.handle import State
from streamlet.state.task_state import TaskState
from streamlet.stores import SharedStore
from streamlet.testing.broker import MemoryBroker
from streamlet.testing.worker import Clock, MemoryWorker
from streamlet.topic import Topic
from streamlet.topology import SubTopology, build

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=State)


class TestDriver:
    """Runs an app for a test.

    `partitions` is for topics that do not say their own, `start` the wall clock in milliseconds. With `autocommit` every
    `send` is processed and committed before it returns; without, `commit` makes it final and `crash` undoes it.
    `resources` replaces resources by name; the others are opened as a worker would, and closed at the end.

        with TestDriver(app) as driver:
            driver.send(lines, "to be or not to be")
            assert [record.value for record in driver.read(counts) if record.key == "be"] == [1, 2]
    """

    __test__: ClassVar[bool] = False  # pytest would take the name for a test of its own

    def __init__(
        self, app: App, *, partitions: int = 1, start: int = 0, autocommit: bool = True, resources: Mapping[str, object] | None = None
    ) -> None:
        """Build the app and open its resources."""
        self._app, self._autocommit, self._replaced = app, autocommit, dict(resources or {})
        self._topology = build(app)
        sources = [source for sub in self._topology.subs for source in sub.sources]
        declared = {source.topic.name: source.topic.partitions or partitions for source in sources if source.repartitions is None}
        self._sizes = plan_partitions(self._topology, declared)
        internal = internal_partitions(self._topology, self._sizes)
        self._broker = MemoryBroker({source.topic.name: {**declared, **internal}[source.topic.name] for source in sources})
        self._clock = Clock(start)
        self._stack = ExitStack()
        self._worker = self._start()

    def _start(self) -> MemoryWorker:
        opened = {resource.name: self._open(resource) for resource in self._topology.resources}
        interval_ms = (self._app.commit or Commit()).interval_ms
        return MemoryWorker(self._topology, self._sizes, self._broker, self._clock, interval_ms=interval_ms, resources=opened)

    def _open(self, resource: Resource) -> object:
        if resource.name in self._replaced:
            return self._replaced[resource.name]
        return self._stack.enter_context(opened(resource))

    # Records

    def send(
        self, topic: Topic[K, V], value: V | None, *, key: K | None = None, timestamp: int | None = None, headers: Headers = ()
    ) -> None:
        """Put a record on a topic that the app reads, and let the app work. What `errors=fail` stops is raised here.

        Without `timestamp` it is the wall clock's time. A record without a key goes to the topic's partitions in turn.
        """
        plain = cast("AnyTopic", topic)  # the codecs take what the topic's types allow
        self._send(plain, encoder(plain.value_codec)(value), encoder(plain.key_codec)(key), timestamp, headers)

    def send_raw(
        self,
        topic: Topic[K, V],
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """As `send`, with bytes as a foreign producer might write them."""
        self._send(cast("AnyTopic", topic), value, key, timestamp, headers)

    def _send(self, topic: AnyTopic, value: bytes | None, key: bytes | None, timestamp: int | None, headers: Headers) -> None:
        if self._app.declared.topics.get(topic.name) is not topic or topic.name not in self._broker.counts:
            read = ", ".join(sorted(name for name in self._broker.counts if name in self._app.declared.topics))
            raise DeclarationError(f"topic '{topic.name}'", "no handler of this app reads it", f"driver.send(…)  # one of: {read}")
        at = self._clock.now_ms if timestamp is None else timestamp
        partition = self._broker.append((topic.name, key, value, at, headers))
        for task in self._worker.tasks.values():
            if task.phase is Phase.PARKED and task.failure is not None and partition in task.positions:
                raise task.failure
        self._settle()

    @overload
    def read(self, topic: Topic[K, V]) -> list[Record[K, V]]: ...
    @overload
    def read(self, topic: str) -> list[Record[bytes, bytes]]: ...
    def read(self, topic: Topic[Any, Any] | str) -> list[Record[Any, Any]]:
        """What the app wrote to a topic and committed since the last `read`; given a name instead of a topic, as bytes.

        Dead letters are read by name: they are bytes that did not fit, or a record that a handler could not take.
        """
        if isinstance(topic, str):
            return [Record(kept.key_bytes, kept.value_bytes, kept.time_ms, kept.pairs) for kept in self._broker.written.pop(topic, [])]
        key, value = topic.key_codec.decode, topic.value_codec.decode
        return [
            Record(
                None if kept.key_bytes is None else key(kept.key_bytes),
                None if kept.value_bytes is None else value(kept.value_bytes),
                kept.time_ms,
                kept.pairs,
            )
            for kept in self._broker.written.pop(topic.name, [])
        ]

    # Time

    @property
    def now(self) -> int:
        """The wall clock in milliseconds."""
        return self._clock.now_ms

    def advance(self, duration: Duration | timedelta) -> None:
        """Move the wall clock: what waits for more records, or for its next try, may be due now."""
        self._clock.now_ms += duration_ms(duration, "driver.advance")
        self._settle()

    def advance_stream(self, *, to: int) -> None:
        """Move the stream time of every task to at least `to`, as if a record of that time had passed by."""
        for task in self._worker.tasks.values():
            task.state.set_stream_time(to)
        self._settle()

    # Commit and crash

    def commit(self) -> None:
        """Make everything final: batch handlers get what they wait for, and all commits go on until nothing moves."""
        self._worker.settle(commit_all=True, commit_due=True)

    def crash(self) -> None:
        """Lose the worker and start another: what was not committed never was, its input comes again, state is replayed."""
        self._worker.close()
        self._stack.close()
        self._worker = self._start()
        self._settle()

    def resume(self, *, skip: bool = False) -> None:
        """Let tasks that `fail` has stopped go on, at the record that stopped them or, with `skip`, behind it."""
        for task in self._worker.tasks.values():
            if task.phase is Phase.PARKED:
                self._worker.resume(task, skip=skip)
        self._settle()

    def _settle(self) -> None:
        self._worker.settle(commit_all=False, commit_due=self._autocommit)

    def close(self) -> None:
        """Close resources and forget what was not committed."""
        self._worker.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # State

    def store(self, handle: S, *, key: object = None, partition: int | None = None) -> S:
        """A shared store (what `app.store` gave) as handlers see it now: of one key, or of one task if it is per task."""
        given = cast("object", handle)  # a placeholder stands for the store in the app's code
        if not isinstance(given, SharedStore):
            raise DeclarationError("driver.store", f"{given!r} was not made by app.store", 'driver.store_of(handler, "total", key=…)')
        for sub in self._topology.subs:
            for use in (use for node in sub.nodes for use in node.handler.signature.stores):
                if use.shared and use.name == given.name:
                    return cast("S", self._view(sub, use.declaration, key, partition))  # of the type it was declared with
        raise DeclarationError(f"store '{given.name}'", "no handler of this app uses it", f"def handler(…, {given.name}: … = {given.name})")

    def store_of(
        self, handler: Handler[..., Any, Any], parameter: str, *, key: object = None, partition: int | None = None
    ) -> Any:  # Any: the type stands in the handler's signature, out of reach for a checker
        """The store behind one of a handler's parameters, as the handler sees it now."""
        for sub in self._topology.subs:
            for node in sub.nodes:
                for param in node.handler.signature.params:
                    if node.handler is handler and param.name == parameter and param.store is not None:
                        return self._view(sub, param.store.declaration, key, partition)
        stores = [param.name for param in handler.signature.params if param.store is not None]
        fix = f'driver.store_of({handler.function.__name__}, "{stores[0]}", key=…)' if stores else "one with a state parameter"
        raise DeclarationError(f"handler '{handler.name}'", f"it has no state parameter '{parameter}' in this app", fix)

    def _view(self, sub: SubTopology, declared: Declaration, key: object, partition: int | None) -> State:
        if declared.view is View.TASK:
            if key is not None:
                raise DeclarationError(f"store '{declared.name}'", "it is per task, not per key", "partition=0  # instead of key=")
            return self._state(sub, declared, partition).handle(declared)
        if key is None:
            raise DeclarationError(f"store '{declared.name}'", "it holds a state for each key", 'key="…"  # whose state')
        keyed = next(source.topic for source in sub.sources if source.topic.has_key)
        home = partition_for(keyed.key_codec.encode(key), self._sizes[sub.name])
        states = cast("ByKey[object, State]", self._state(sub, declared, home).handle(replace(declared, view=View.BY_KEY)))
        return states[key]

    def _state(self, sub: SubTopology, declared: Declaration, partition: int | None) -> TaskState:
        tasks = self._sizes[sub.name]
        if partition is None and tasks > 1:
            problem = f"each of the {tasks} tasks of '{sub.name}' has its own"
            raise DeclarationError(f"store '{declared.name}'", problem, f"partition=0  # up to {tasks - 1}")
        return self._worker.tasks[TaskId(sub.name, partition or 0)].state
