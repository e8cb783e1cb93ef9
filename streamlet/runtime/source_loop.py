"""The loop over records: decode a batch, run every handler attached to its source, keep each failure to its record.

A batch that decodes whole and has no nulls runs through `_run_clean`, where only the handlers cost; anything odd
in it sends it through `_run_careful`, record by record. Both end at the commit's deadline, between two records.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from streamlet.codecs import BoundCodec, explain_decode
from streamlet.context import Context
from streamlet.errors import ConfigError, HandlerError, RetryError
from streamlet.policy import DeadLetter, Policy, Skip
from streamlet.record import Headers, Record
from streamlet.runtime.batching import Gatherer
from streamlet.runtime.chain import Step
from streamlet.runtime.incoming import Incoming
from streamlet.runtime.outbox import Outbox
from streamlet.state.task_state import TaskState

log = logging.getLogger("streamlet.task")

MonotonicClock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Root:
    """A handler attached to a source, compiled with everything fused below it."""

    name: str
    step: Step
    policy: Policy
    admits_null: bool  # whether a null value may reach it
    needs_key: bool  # whether it has key-level state, so that a null key is an error


@dataclass(slots=True)
class Counts:
    """What happened to records since the task began, for metrics."""

    processed: int = 0
    skipped: int = 0
    dead_letters: int = 0
    nulls: int = 0


class NullKey(HandlerError):
    """A record without a key reached key-level state."""


class Undecodable(HandlerError):
    """The bytes of a record do not fit the topic's declared type."""


@dataclass(slots=True)
class Progress:
    """How far one run through a batch came, and the failure that stopped it, if one did."""

    done: int
    failure: HandlerError | None = None
    rewind: bool = False  # later records were touched already: go back to the last commit and stop before the failure
    wait: RetryError | None = None  # something the record needs is away: the same record again later


class SourceLoop:
    """Runs the handlers of one source for one task. Its only user is that task."""

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        key_codec: BoundCodec[object],
        value_codec: BoundCodec[object],
        decode_policy: Policy,
        event_time: Callable[[object], int] | None,
        roots: Sequence[Root],
        gatherers: Sequence[Gatherer],
        state_key: Callable[[object], bytes] | None,
        needs_key: bool,
        context: Context | None,
        state: TaskState,
        outbox: Outbox,
        counts: Counts,
        clock: MonotonicClock = time.monotonic,
    ) -> None:
        self._topic, self._partition = topic, partition
        self._decode_key, self._decode_value, self._value_codec = key_codec.decode, value_codec.decode, value_codec
        self._decode_policy, self._event_time, self._roots = decode_policy, event_time, tuple(roots)
        self._gatherers = tuple(gatherers)
        self._state_key, self._needs_key = state_key, needs_key or state_key is not None or bool(gatherers)
        self._context, self._state, self._outbox, self._counts, self._clock = context, state, outbox, counts, clock

    def run(self, messages: Sequence[Incoming], deadline: float) -> Progress:
        """Process records in order until the deadline has passed or one stops the task."""
        keys = [message.key() for message in messages]
        values = [message.value() for message in messages]
        if None in values or None in keys:
            return self._run_careful(messages, deadline)
        try:
            decoded = [*map(self._decode_value, cast("list[bytes]", values))]  # no None among them, see above
            decoded_keys = [*map(self._decode_key, cast("list[bytes]", keys))] if self._needs_key else keys
            times = [message.timestamp()[1] for message in messages] if self._event_time is None else [*map(self._event_time, decoded)]
        except Exception:  # whatever a codec raises: find out which record it was
            return self._run_careful(messages, deadline)
        return self._run_clean(Decoded(messages, keys, decoded_keys, decoded, times), self._roots, self._gatherers, deadline)

    def _run_clean(self, batch: "Decoded", roots: Sequence[Root], gatherers: Sequence[Gatherer], deadline: float) -> Progress:
        """The hot loop: nothing here but what every record needs."""
        state, context, clock, state_key = self._state, self._context, self._clock, self._state_key
        journal, records, moved = self._state.journal, self._outbox.records, self._outbox.moved
        one_root = len(roots) == 1
        done = 0
        for message, key_bytes, key, value, timestamp in zip(*batch, strict=True):
            state.key = key_bytes if state_key is None else state_key(key)  # type: ignore[assignment]  # a null key reaches no state
            if context is not None:
                self._fill(context, message, key, timestamp)
            undo_to = first_undo = len(journal), len(records), len(moved)
            for root in roots:
                try:
                    root.step(value, key, key_bytes, timestamp)
                except RetryError as wait:
                    self._undo(first_undo)
                    self._counts.processed += done
                    return Progress(done, wait=wait)
                except Exception as error:  # user code may raise anything: its policy decides
                    attempt = Attempt(root, message, value, key, key_bytes, timestamp, undo_to)
                    failure = self._handle(attempt, error)
                    if failure is not None:
                        self._undo(first_undo)
                        self._counts.processed += done
                        return Progress(done, failure)
                if not one_root:
                    undo_to = len(journal), len(records), len(moved)
            done += 1
            for gatherer in gatherers:
                record = Record(key, value, timestamp, tuple(message.headers() or ()))
                if gatherer.add(message, record, clock()) and (failure := self._call(gatherer)) is not None:
                    return Progress(done, failure, rewind=True)
            if clock() >= deadline:
                break
        self._counts.processed += done
        state.set_stream_time(max(batch.times[:done], default=-1))
        return Progress(done)

    def flush(self) -> HandlerError | None:
        """Call the batch handlers with what they have gathered; a failure means going back to the last commit."""
        for gatherer in self._gatherers:
            failure = self._call(gatherer)
            if failure is not None:
                return failure
        return None

    def filling(self, now: float) -> bool:
        """Whether a batch handler still waits for more records."""
        return any(gatherer.filling(now) for gatherer in self._gatherers)

    def forget(self) -> None:
        """Drop what was gathered: its records come again."""
        for gatherer in self._gatherers:
            gatherer.take()

    def _call(self, gatherer: Gatherer) -> HandlerError | None:
        """One call with all; if that fails, one call for each, so that only the culprit meets the policy."""
        messages, records = gatherer.take()
        mark = self._mark()
        if not records:
            return None
        try:
            gatherer.call(records)
        except Exception:  # user code may raise anything: find the record that did it
            self._undo(mark)
        else:
            return None
        for message, record in zip(messages, records, strict=True):
            mark = self._mark()
            try:
                gatherer.call([record])
            except Exception as error:  # this is the one: its policy decides
                self._undo(mark)
                failure = self._refuse(message, HandlerError, gatherer.name, gatherer.policy, error)
                if failure is not None:
                    return failure
        return None

    def late(self, deadline: float) -> bool:
        """Whether the deadline has passed."""
        return self._clock() >= deadline

    def _run_careful(self, messages: Sequence[Incoming], deadline: float) -> Progress:
        """Record by record: nulls and undecodable bytes find their policy, the others run as usual."""
        for done, message in enumerate(messages):
            key_bytes, raw = message.key(), message.value()
            try:
                key = self._decode_key(key_bytes) if key_bytes is not None and self._needs_key else None
                value = self._decode_value(raw) if raw is not None else None
                timestamp = self._event_time(value) if self._event_time is not None and raw is not None else message.timestamp()[1]
            except RetryError as wait:
                return Progress(done, wait=wait)
            except Exception as error:  # whatever a codec raises: the topic's policy decides
                failure = self._refuse(message, Undecodable, self._topic, self._decode_policy, explain_decode(self._value_codec, error))
                if failure is not None:
                    return Progress(done, failure)
                continue
            roots = [root for root in self._roots if raw is not None or root.admits_null]
            self._counts.nulls += len(self._roots) - len(roots)
            if key_bytes is None:
                for root in [root for root in roots if root.needs_key]:
                    missing = ValueError("the record has no key, but the handler keeps state by key")
                    failure = self._refuse(message, NullKey, root.name, root.policy, missing)
                    if failure is not None:
                        return Progress(done, failure)
                roots = [root for root in roots if not root.needs_key]
            gatherers = [gatherer for gatherer in self._gatherers if raw is not None or gatherer.admits_null]
            progress = self._run_clean(Decoded([message], [key_bytes], [key], [value], [timestamp]), roots, gatherers, deadline)
            if progress.failure is not None or progress.wait is not None:
                return Progress(done, progress.failure, progress.rewind, progress.wait)
            if self._clock() >= deadline:
                return Progress(done + 1)
        return Progress(len(messages))

    def _handle(self, attempt: "Attempt", error: Exception) -> HandlerError | None:
        """Undo what the failed handler did; then retry, drop, or send to the dead letters. A failure returned parks the task."""
        root, policy = attempt.root, attempt.root.policy
        self._undo(attempt.mark)
        if isinstance(policy, DeadLetter):
            for _ in range(policy.retries if isinstance(error, policy.on) else 0):
                time.sleep(policy.backoff_ms / 1000)
                try:
                    root.step(attempt.value, attempt.key, attempt.key_bytes, attempt.timestamp)
                except Exception as again:  # the same policy, once more
                    self._undo(attempt.mark)
                    error = again
                else:
                    return None
        return self._refuse(attempt.message, HandlerError, root.name, policy, error)

    def _refuse(self, message: Incoming, kind: type[HandlerError], name: str, policy: Policy, error: Exception) -> HandlerError | None:
        """Apply an error policy to a record that leaves no trace but this."""
        failure = kind(name, self._topic, self._partition, message.offset() or 0, f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        if isinstance(error, ConfigError):
            return failure  # no record is at fault: every other one would fail likewise
        if isinstance(policy, Skip):
            self._counts.skipped += 1
            log.warning(
                "record skipped", extra={"handler": name, "topic": self._topic, "partition": self._partition, "offset": failure.offset}
            )
            return None
        if isinstance(policy, DeadLetter) and isinstance(error, policy.on):
            self._counts.dead_letters += 1
            letter = (policy.topic, message.key(), message.value(), message.timestamp()[1], dead_letter_headers(message, failure, error))
            self._outbox.records.append(letter)
            return None
        return failure

    def _mark(self) -> "Mark":
        return self._state.mark(), len(self._outbox.records), len(self._outbox.moved)

    def _undo(self, mark: "Mark") -> None:
        self._state.rollback(mark[0])
        del self._outbox.records[mark[1] :]
        del self._outbox.moved[mark[2] :]

    def _fill(self, context: Context, message: Incoming, key: object, timestamp: int) -> None:
        context.topic, context.partition, context.offset = self._topic, self._partition, message.offset() or 0
        context.timestamp, context.headers, context.key = timestamp, tuple(message.headers() or ()), key
        self._state.set_stream_time(timestamp)
        context.stream_time = self._state.stream_time


class Decoded(NamedTuple):
    """A batch taken apart into columns of equal length; a tuple, so that the hot loop zips it."""

    messages: Sequence[Incoming]
    key_bytes: Sequence[bytes | None]
    keys: Sequence[object]
    values: Sequence[object]
    times: Sequence[int]


Mark = tuple[int, int, int]  # lengths of the undo journal, of the outputs and of the outputs that are moved by key


@dataclass(frozen=True, slots=True)
class Attempt:
    """One handler at one record: everything needed to try it again."""

    root: Root
    message: Incoming
    value: object
    key: object
    key_bytes: bytes | None
    timestamp: int
    mark: Mark


def dead_letter_headers(message: Incoming, failure: HandlerError, error: Exception) -> Headers:
    """The reason beside the original: the record's own headers stay in front."""
    facts = {
        "streamlet-topic": failure.topic,
        "streamlet-partition": str(failure.partition),
        "streamlet-offset": str(failure.offset),
        "streamlet-handler": failure.handler,
        "streamlet-error": type(error).__name__,
        "streamlet-reason": str(error),
    }
    return [*(message.headers() or ()), *((name, text.encode()) for name, text in facts.items())]
