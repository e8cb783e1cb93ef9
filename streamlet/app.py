"""The declared program: a name, its topics, stores, resources and handlers.

Declaring needs no broker and loads no client; `App.run` holds the one late import.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, cast, overload

from streamlet.codecs import BoundCodec, codec_for
from streamlet.commit import Commit
from streamlet.config import Layer, code_layer
from streamlet.declaration import DeclarationError, not_yet
from streamlet.declared import Declared, lasting_name
from streamlet.durations import Duration, duration_ms, milliseconds
from streamlet.errors import ConfigError
from streamlet.handler import AnyHandler, AnyTopic, Batching, Handler, Wiring
from streamlet.hints import shown
from streamlet.ids import checked_name
from streamlet.policy import Policy, checked_policy, fail
from streamlet.record import Record, Sent
from streamlet.state.types import State
from streamlet.step import BatchStep, BatchStepTo, Step, StepTo
from streamlet.stores import shared_store
from streamlet.subject import identifier
from streamlet.topic import Start, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path

    from typing_extensions import TypeForm, Unpack

    from streamlet.options import BatchOptions, ProcessOptions, TopicOptions

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")
V4 = TypeVar("V4")
M = TypeVar("M")
S = TypeVar("S", bound=State)

AnySource = Topic[Any, Any] | Handler[..., Any, Any]
To = Topic[K2, V2] | tuple[Topic[K2, V2], ...]
Guarantee = Literal["exactly-once", "at-least-once"]
_AT_ONCE: Final = milliseconds(0)


class App:
    """A stream application. Brokers, folder and commit are the code's wishes: command line, environment and streamlet.toml go first."""

    def __init__(
        self,
        name: str,
        *,
        brokers: str | None = None,
        errors: Policy = fail,
        state_dir: Path | None = None,
        commit: Commit | None = None,
        guarantee: Guarantee = "exactly-once",
    ) -> None:
        """Name the app: the name becomes its Kafka group and the prefix of its topics, for good."""
        self.declared = Declared(name)
        self.name, self.brokers, self.state_dir, self.commit = name, brokers, state_dir, commit
        self.errors = checked_policy(errors, f"App({name!r})")
        if guarantee not in ("exactly-once", "at-least-once"):
            raise DeclarationError(f"App({name!r})", f"guarantee={guarantee!r} is not known", 'guarantee="exactly-once"')
        self.guarantee: Guarantee = guarantee

    def __repr__(self) -> str:
        return f"<app {self.name!r}>"

    @property
    def settings(self) -> Layer:
        """What this code says about its settings, below what the command line, the environment and streamlet.toml say."""
        return code_layer(brokers=self.brokers, state_dir=self.state_dir, commit=None if self.commit is None else self.commit.setting)

    @overload
    def topic(self, name: str, *, key: TypeForm[K], value: TypeForm[V], **options: Unpack[TopicOptions[V]]) -> Topic[K, V]: ...
    @overload
    def topic(self, name: str, *, value: TypeForm[V], **options: Unpack[TopicOptions[V]]) -> Topic[bytes, V]: ...
    @overload
    def topic(self, name: str, *, key: TypeForm[K], **options: Unpack[TopicOptions[bytes]]) -> Topic[K, bytes]: ...
    @overload
    def topic(self, name: str, **options: Unpack[TopicOptions[bytes]]) -> Topic[bytes, bytes]: ...
    def topic(
        self,
        name: str,
        *,
        key: object = None,
        value: object = bytes,
        codec: object = None,
        key_codec: object = None,
        timestamp: Callable[[Any], int] | None = None,
        partitions: int | None = None,
        errors: Policy | None = None,
        start: Start = "earliest",
    ) -> Topic[Any, Any]:
        """Declare a topic. Without `key=` the key is opaque bytes; `partitions=` is permission to create the topic."""
        subject = f"topic '{name}'"
        checked_name("topic", name)
        if partitions is not None and partitions < 1:
            raise DeclarationError(subject, f"partitions={partitions} is not a count", f'app.topic("{name}", partitions=1)')
        if start not in ("earliest", "latest"):
            raise DeclarationError(subject, f"start={start!r} is not known", f'app.topic("{name}", start="latest")  # or "earliest"')
        topic: Topic[Any, Any] = Topic(
            name=name,
            key_type=bytes if key is None else key,
            value_type=value,
            has_key=key is not None,
            key_codec=codec_of(subject, bytes if key is None else key, key_codec, topic=name, part="key"),
            value_codec=codec_of(subject, value, codec, topic=name, part="value"),
            errors=self.errors if errors is None else checked_policy(errors, subject),
            timestamp=timestamp,
            partitions=partitions,
            start=start,
        )
        self.declared.add_topic(topic)
        return topic

    def store(self, name: str, kind: type[S], *, ttl: Duration | timedelta | None = None, codec: object = None) -> S:
        """Declare a store that several handlers share: give it as the default of a parameter of the same type."""
        store = shared_store(lasting_name("store", name), kind, ttl=ttl, codec=codec)
        self.declared.add_store(store)
        return cast("S", store)  # stands in signatures only; the runtime passes the real one

    def resource(self, function: Callable[[], Iterator[M]], /) -> M:
        """Declare something to be opened once per worker: give it as the default of a parameter."""
        resource = self.declared.add_resource(function, sys._getframe(1).f_locals)
        return cast("M", resource)  # stands in signatures only; the runtime passes the real one

    @overload
    def process(self, source: Topic[K, V], /, **options: Unpack[ProcessOptions]) -> Step[K, V]: ...
    @overload
    def process(
        self, source: Handler[..., Iterable[Record[K, V | None] | Sent | None], Any], /, **options: Unpack[ProcessOptions]
    ) -> Step[K, V]: ...
    @overload
    def process(self, source: Handler[..., Iterator[V | Sent | None], K], /, **options: Unpack[ProcessOptions]) -> Step[K, V]: ...
    @overload
    def process(self, source: Handler[..., Record[K, V | None] | Sent | None, Any], /, **options: Unpack[ProcessOptions]) -> Step[K, V]: ...
    @overload
    def process(self, source: Handler[..., V | Sent | None, K], /, **options: Unpack[ProcessOptions]) -> Step[K, V]: ...
    @overload
    def process(self, source: Topic[K, V], second: Topic[K, V3], /, **options: Unpack[ProcessOptions]) -> Step[K, V | V3]: ...
    @overload
    def process(
        self, source: Topic[K, V], second: Topic[K, V3], third: Topic[K, V4], /, **options: Unpack[ProcessOptions]
    ) -> Step[K, V | V3 | V4]: ...
    @overload
    def process(
        self,
        source: Topic[K, Any],
        second: Topic[K, Any],
        third: Topic[K, Any],
        fourth: Topic[K, Any],
        /,
        *more: Topic[K, Any],
        **options: Unpack[ProcessOptions],
    ) -> Step[K, Any]: ...
    @overload
    def process(
        self, source: Handler[..., Any, Any], second: AnySource, /, *more: AnySource, **options: Unpack[ProcessOptions]
    ) -> Step[Any, Any]: ...
    @overload
    def process(
        self, source: Topic[Any, Any], second: Handler[..., Any, Any], /, *more: AnySource, **options: Unpack[ProcessOptions]
    ) -> Step[Any, Any]: ...
    @overload
    def process(self, source: Topic[K, V], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]) -> StepTo[K, V, K2, V2]: ...
    @overload
    def process(
        self,
        source: Handler[..., Iterable[Record[K, V | None] | Sent | None], Any],
        /,
        *,
        to: To[K2, V2],
        **options: Unpack[ProcessOptions],
    ) -> StepTo[K, V, K2, V2]: ...
    @overload
    def process(
        self, source: Handler[..., Iterator[V | Sent | None], K], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[K, V, K2, V2]: ...
    @overload
    def process(
        self, source: Handler[..., Record[K, V | None] | Sent | None, Any], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[K, V, K2, V2]: ...
    @overload
    def process(
        self, source: Handler[..., V | Sent | None, K], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[K, V, K2, V2]: ...
    @overload
    def process(
        self, source: Topic[K, V], second: Topic[K, V3], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[K, V | V3, K2, V2]: ...
    @overload
    def process(
        self, source: Topic[K, V], second: Topic[K, V3], third: Topic[K, V4], /, *, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[K, V | V3 | V4, K2, V2]: ...
    @overload
    def process(
        self,
        source: Topic[K, Any],
        second: Topic[K, Any],
        third: Topic[K, Any],
        fourth: Topic[K, Any],
        /,
        *more: Topic[K, Any],
        to: To[K2, V2],
        **options: Unpack[ProcessOptions],
    ) -> StepTo[K, Any, K2, V2]: ...
    @overload
    def process(
        self, source: Handler[..., Any, Any], second: AnySource, /, *more: AnySource, to: To[K2, V2], **options: Unpack[ProcessOptions]
    ) -> StepTo[Any, Any, K2, V2]: ...
    @overload
    def process(
        self,
        source: Topic[Any, Any],
        second: Handler[..., Any, Any],
        /,
        *more: AnySource,
        to: To[K2, V2],
        **options: Unpack[ProcessOptions],
    ) -> StepTo[Any, Any, K2, V2]: ...
    def process(
        self,
        *sources: Any,
        to: Any = (),
        also: Sequence[Any] = (),
        name: str | None = None,
        errors: Policy | None = None,
        keeps_key: bool = False,
        repartition: int | None = None,
    ) -> Any:
        """Declare a handler that is called with each record of its sources."""
        wiring = self._wiring("@app.process", sources, to, also, errors, keeps_key=keeps_key, repartition=repartition, batching=None)
        register = partial(self._register, wiring=wiring, name=name)
        return StepTo[Any, Any, Any, Any](register) if wiring.to else Step[Any, Any](register)

    @overload
    def batch(self, source: Topic[K, V], /, **options: Unpack[BatchOptions]) -> BatchStep[K, V]: ...
    @overload
    def batch(
        self, source: Handler[..., Iterable[Record[K, V | None] | Sent | None], Any], /, **options: Unpack[BatchOptions]
    ) -> BatchStep[K, V]: ...
    @overload
    def batch(self, source: Handler[..., Iterator[V | Sent | None], K], /, **options: Unpack[BatchOptions]) -> BatchStep[K, V]: ...
    @overload
    def batch(
        self, source: Handler[..., Record[K, V | None] | Sent | None, Any], /, **options: Unpack[BatchOptions]
    ) -> BatchStep[K, V]: ...
    @overload
    def batch(self, source: Handler[..., V | Sent | None, K], /, **options: Unpack[BatchOptions]) -> BatchStep[K, V]: ...
    @overload
    def batch(self, source: Topic[K, V], second: Topic[K, V3], /, **options: Unpack[BatchOptions]) -> BatchStep[K, V | V3]: ...
    @overload
    def batch(
        self, source: Topic[K, V], second: Topic[K, V3], third: Topic[K, V4], /, **options: Unpack[BatchOptions]
    ) -> BatchStep[K, V | V3 | V4]: ...
    @overload
    def batch(
        self,
        source: Topic[K, Any],
        second: Topic[K, Any],
        third: Topic[K, Any],
        fourth: Topic[K, Any],
        /,
        *more: Topic[K, Any],
        **options: Unpack[BatchOptions],
    ) -> BatchStep[K, Any]: ...
    @overload
    def batch(
        self, source: Handler[..., Any, Any], second: AnySource, /, *more: AnySource, **options: Unpack[BatchOptions]
    ) -> BatchStep[Any, Any]: ...
    @overload
    def batch(
        self, source: Topic[Any, Any], second: Handler[..., Any, Any], /, *more: AnySource, **options: Unpack[BatchOptions]
    ) -> BatchStep[Any, Any]: ...
    @overload
    def batch(self, source: Topic[K, V], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]) -> BatchStepTo[K, V, K2, V2]: ...
    @overload
    def batch(
        self, source: Handler[..., Iterable[Record[K, V | None] | Sent | None], Any], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V, K2, V2]: ...
    @overload
    def batch(
        self, source: Handler[..., Iterator[V | Sent | None], K], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V, K2, V2]: ...
    @overload
    def batch(
        self, source: Handler[..., Record[K, V | None] | Sent | None, Any], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V, K2, V2]: ...
    @overload
    def batch(
        self, source: Handler[..., V | Sent | None, K], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V, K2, V2]: ...
    @overload
    def batch(
        self, source: Topic[K, V], second: Topic[K, V3], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V | V3, K2, V2]: ...
    @overload
    def batch(
        self, source: Topic[K, V], second: Topic[K, V3], third: Topic[K, V4], /, *, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[K, V | V3 | V4, K2, V2]: ...
    @overload
    def batch(
        self,
        source: Topic[K, Any],
        second: Topic[K, Any],
        third: Topic[K, Any],
        fourth: Topic[K, Any],
        /,
        *more: Topic[K, Any],
        to: To[K2, V2],
        **options: Unpack[BatchOptions],
    ) -> BatchStepTo[K, Any, K2, V2]: ...
    @overload
    def batch(
        self, source: Handler[..., Any, Any], second: AnySource, /, *more: AnySource, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[Any, Any, K2, V2]: ...
    @overload
    def batch(
        self, source: Topic[Any, Any], second: Handler[..., Any, Any], /, *more: AnySource, to: To[K2, V2], **options: Unpack[BatchOptions]
    ) -> BatchStepTo[Any, Any, K2, V2]: ...
    def batch(
        self,
        *sources: Any,
        to: Any = (),
        also: Sequence[Any] = (),
        name: str | None = None,
        errors: Policy | None = None,
        size: int = 500,
        within: Duration | timedelta = _AT_ONCE,
        repartition: int | None = None,
    ) -> Any:
        """Declare a handler that is called with up to `size` records at once, waiting at most `within` for more."""
        if size < 1:
            raise DeclarationError("@app.batch", f"size={size} is no batch", "@app.batch(…, size=500)")
        batching = Batching(size, duration_ms(within, "@app.batch(within=)"))
        wiring = self._wiring("@app.batch", sources, to, also, errors, keeps_key=False, repartition=repartition, batching=batching)
        register = partial(self._register, wiring=wiring, name=name)
        return BatchStepTo[Any, Any, Any, Any](register) if wiring.to else BatchStep[Any, Any](register)

    def run(self) -> None:
        """Run the app in this process until it is told to stop."""
        from streamlet.runtime.run import run_app  # the clients are loaded here and not before

        run_app(self)

    def stream(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: windows and joins, written fluently."""
        raise not_yet(
            "app.stream", "the fluent form with windows and joins", "@app.process(topic)  # with state for what a window would hold"
        )

    def table(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: a topic read as a table."""
        raise not_yet("app.table", "reading a topic as a table", "@app.process(topic)  # keeping the newest value in a shared app.store(…)")

    def global_table(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: a topic read as a table by every worker."""
        raise not_yet("app.global_table", "a table held by every worker", "@app.resource  # loading what every worker needs")

    def enrich(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: `async def` handlers."""
        raise not_yet("app.enrich", "calling `async def` functions", "@app.batch(topic, size=500)  # and do the calls of a batch together")

    def include(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: handlers declared on a Router."""
        raise not_yet("app.include", "Router and include", "from my_app import app  # and declare on it in each module")

    def _wiring(
        self,
        subject: str,
        sources: tuple[object, ...],
        to: object,
        also: Sequence[object],
        errors: Policy | None,
        *,
        keeps_key: bool,
        repartition: int | None,
        batching: Batching | None,
    ) -> Wiring:
        if not sources:
            raise DeclarationError(subject, "it names no source", f"{subject}(lines)  # lines = app.topic(…)")
        if len(sources) == 1 and callable(sources[0]) and not isinstance(sources[0], Handler):
            raise DeclarationError(subject, "it is used without its brackets, so it has no source", f"{subject}(lines)")
        if repartition is not None and repartition < 1:
            raise DeclarationError(subject, f"repartition={repartition} is not a count of partitions", f"{subject}(…, repartition=8)")
        for source in sources:
            self.declared.check_member(subject, source)
        targets = cast("tuple[object, ...]", to) if isinstance(to, tuple) else (to,)
        for option, topics in (("to", targets), ("also", tuple(also))):
            for topic in topics:
                if isinstance(topic, Handler):
                    fix = f"@app.process({topic.name})  # on the handler that shall follow"
                    raise DeclarationError(subject, f"{option}= takes topics, and {topic!r} is a handler", fix)
                self.declared.check_member(f"{subject}({option}=)", topic)
        return Wiring(
            sources=cast("tuple[AnyTopic | AnyHandler, ...]", sources),
            to=cast("tuple[AnyTopic, ...]", targets),
            also=cast("tuple[AnyTopic, ...]", tuple(also)),
            errors=self.errors if errors is None else checked_policy(errors, subject),
            errors_given=errors is not None,
            keeps_key=keeps_key,
            repartition=repartition,
            batching=batching,
        )

    def _register(self, function: Callable[..., Any], local_names: Any, *, wiring: Wiring, name: str | None) -> Handler[..., Any, Any]:
        return self.declared.add_handler(function, wiring, name, local_names)


def codec_of(subject: str, hint: object, choice: object, *, topic: str, part: Literal["key", "value"]) -> BoundCodec[Any]:
    """The codec for one part of a topic; what has none is refused in the words of the declaration."""
    try:
        return codec_for(hint, cast("Any", choice), topic=topic, part=part)  # codec_for checks what it is given
    except ConfigError as error:
        option = "key_codec" if part == "key" else "codec"
        fix = f'{identifier(topic)} = app.topic("{topic}", {part}=…, {option}=…)  # another type, or an object with encode and decode'
        raise DeclarationError(subject, f"its {part} type {shown(hint)} cannot be used ({error})", fix) from error
