"""The loop over records: decode a batch, run every handler attached to its source, keep each failure to its record.

A batch that decodes whole and has no nulls runs through `_run_clean`, where only the handlers cost; anything odd
in it sends it through `_run_careful`, record by record. Both end at the commit's deadline, between two records.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from streamlet.codecs import BoundCodec, explain_decode
from streamlet.context import Context
from streamlet.errors import ConfigError, HandlerError, RetryError
from streamlet.policy import DeadLetter, Policy, Skip
from streamlet.record import Headers, Record
from streamlet.runtime.batching import Gatherer
from streamlet.runtime.chain import Step
from streamlet.runtime.incoming import Incoming
from streamlet.runtime.outbox import Outbox
from streamlet.state.errors import BadKey, FolderUnusable, WrongValue
from streamlet.state.task_state import TaskState

log = logging.getLogger("streamlet.task")

_MOST_SAID: Final = 4000  # characters of an exception's message

MonotonicClock = Callable[[], float]
Sleep = Callable[[float], None]
DeclaredTime = Callable[[Incoming], int | None]  # None while something that decoding needs is away


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


Stop = HandlerError | RetryError  # why a task cannot go on: a record parks it, or something is away for a while


def _stopped(done: int, stop: Stop, *, rewind: bool = False) -> Progress:
    return Progress(done, wait=stop, rewind=rewind) if isinstance(stop, RetryError) else Progress(done, stop, rewind)


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
        checks_keys: bool,
        needs_key: bool,
        context: Context | None,
        state: TaskState,
        outbox: Outbox,
        counts: Counts,
        clock: MonotonicClock = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._topic, self._partition = topic, partition
        self._decode_key, self._decode_value = key_codec.decode, value_codec.decode
        self._key_codec, self._value_codec = key_codec, value_codec
        self._decode_policy, self._event_time, self._roots = decode_policy, event_time, tuple(roots)
        self._gatherers = tuple(gatherers)
        self._state_key, self._needs_key = state_key, needs_key or state_key is not None or bool(gatherers)
        self._checks_keys = checks_keys and not self._needs_key  # text that becomes the state's key as it came
        self._context, self._state, self._outbox, self._counts, self._clock = context, state, outbox, counts, clock
        self._sleep = sleep

    @property
    def declared_time(self) -> DeclaredTime | None:
        """When a record happened by its topic's `timestamp=`, for merging; None without one.

        The value is decoded for this and once more when the record is processed.
        """
        event_time = self._event_time
        if event_time is None:
            return None

        def time_of(message: Incoming) -> int | None:
            raw = message.value()
            try:
                return message.timestamp()[1] if raw is None else event_time(self._decode_value(raw))
            except RetryError:
                return None
            except Exception:  # the topic's policy decides when the record's turn comes
                return message.timestamp()[1]

        return time_of

    def run(self, messages: Sequence[Incoming], deadline: float) -> Progress:
        """Process records in order until the deadline has passed or one stops the task."""
        keys = [message.key() for message in messages]
        values = [message.value() for message in messages]
        if None in values or None in keys:
            return self._run_careful(messages, deadline)
        try:
            decoded = [*map(self._decode_value, cast("list[bytes]", values))]  # no None among them, see above
            decoded_keys = [*map(self._decode_key, cast("list[bytes]", keys))] if self._needs_key else keys
            if self._checks_keys:
                b"\0".join(cast("list[bytes]", keys)).decode()  # text if each of them is; 12 ns per key instead of 68
            state_keys = keys if self._state_key is None else [*map(self._state_key, decoded_keys)]
            times = [message.timestamp()[1] for message in messages] if self._event_time is None else [*map(self._event_time, decoded)]
        except Exception:  # whatever a codec raises: find out which record it was
            return self._run_careful(messages, deadline)
        return self._run_clean(Decoded(messages, keys, state_keys, decoded_keys, decoded, times), self._roots, self._gatherers, deadline)

    def _run_clean(self, batch: "Decoded", roots: Sequence[Root], gatherers: Sequence[Gatherer], deadline: float) -> Progress:
        """The hot loop: nothing here but what every record needs."""
        state, context, clock = self._state, self._context, self._clock
        journal, records, moved = self._state.journal, self._outbox.records, self._outbox.moved
        one_root = len(roots) == 1
        done = 0
        for message, key_bytes, state_key, key, value, timestamp in zip(*batch, strict=True):
            state.key = state_key  # a null key reaches no state
            if context is not None:
                self._fill(context, message, key, timestamp)
            undo_to = first_undo = len(journal), len(records), len(moved)
            for root in roots:
                try:
                    root.step(value, key, key_bytes, timestamp)
                except Exception as error:  # user code may raise anything: its policy decides
                    attempt = Attempt(root, message, value, key, key_bytes, timestamp, undo_to)
                    stop = self._handle(attempt, error)
                    if stop is not None:
                        self._undo(first_undo)
                        self._note(batch, done)
                        return _stopped(done, stop)
                if not one_root:
                    undo_to = len(journal), len(records), len(moved)
            done += 1
            for gatherer in gatherers:
                record = Record(key, value, timestamp, tuple(message.headers() or ()))
                if gatherer.add(message, record, clock()) and (stop := self._call(gatherer)) is not None:
                    return _stopped(done, stop, rewind=True)
            if clock() >= deadline:
                break
        self._note(batch, done)
        return Progress(done)

    def _note(self, batch: "Decoded", done: int) -> None:
        self._counts.processed += done
        self._state.set_stream_time(max(batch.times[:done], default=-1))

    def flush(self) -> Progress:
        """Call the batch handlers with what they have gathered; a failure means going back to the last commit."""
        for gatherer in self._gatherers:
            stop = self._call(gatherer)
            if stop is not None:
                return _stopped(0, stop, rewind=True)
        return Progress(0)

    def filling(self, now: float) -> bool:
        """Whether a batch handler still waits for more records."""
        return any(gatherer.filling(now) for gatherer in self._gatherers)

    def forget(self) -> None:
        """Drop what was gathered: its records come again."""
        for gatherer in self._gatherers:
            gatherer.take()

    def _call(self, gatherer: Gatherer) -> Stop | None:
        """One call with all; if that fails, one call for each, so that only the culprit meets the policy."""
        messages, records = gatherer.take()
        if not records:
            return None
        mark = self._mark()
        try:
            gatherer.call(records)
        except Exception as error:  # user code may raise anything: find the record that did it
            self._undo(mark)
            if isinstance(error, RetryError):
                return error
            if len(records) == 1:
                return self._call_again(gatherer, messages[0], records[0], error)
        else:
            return None
        for message, record in zip(messages, records, strict=True):
            mark = self._mark()
            try:
                gatherer.call([record])
            except Exception as error:  # this is the one: its policy decides
                self._undo(mark)
                stop = self._call_again(gatherer, message, record, error)
                if stop is not None:
                    return stop
        return None

    def _call_again(self, gatherer: Gatherer, message: Incoming, record: Record[object, object], error: Exception) -> Stop | None:
        """One record failed a batch handler alone: the same policy as for any handler."""
        mark = self._mark()
        last = self._retry(gatherer.policy, error, lambda: gatherer.call([record]), lambda: self._undo(mark))
        if last is None or isinstance(last, RetryError):
            return last
        return self._refuse(message, HandlerError, gatherer.name, gatherer.policy, last)

    def late(self, deadline: float) -> bool:
        """Whether the deadline has passed."""
        return self._clock() >= deadline

    def _run_careful(self, messages: Sequence[Incoming], deadline: float) -> Progress:
        """Record by record: nulls and undecodable bytes find their policy, the others run as usual."""
        for done, message in enumerate(messages):
            progress = self._run_odd(message, deadline)
            if progress.failure is not None or progress.wait is not None:
                return Progress(done, progress.failure, progress.rewind, progress.wait)
            if self._clock() >= deadline:
                return Progress(done + 1)
        return Progress(len(messages))

    def _run_odd(self, message: Incoming, deadline: float) -> Progress:
        """One record that may be null, have no key, or not decode."""
        key_bytes, raw, encode = message.key(), message.value(), self._state_key
        codec = self._key_codec
        try:
            key = self._decode_key(key_bytes) if key_bytes is not None and (self._needs_key or self._checks_keys) else None
            state_key = key_bytes if encode is None or key_bytes is None else encode(key)
            codec = self._value_codec
            value = self._decode_value(raw) if raw is not None else None
            timestamp = self._event_time(value) if self._event_time is not None and raw is not None else message.timestamp()[1]
        except RetryError as wait:
            return Progress(0, wait=wait)
        except Exception as error:  # whatever a codec raises: the topic's policy decides
            explained = explain_decode(codec, error)
            return Progress(1, self._refuse(message, Undecodable, self._topic, self._decode_policy, explained))
        takers = [root for root in self._roots if raw is not None or root.admits_null]
        gatherers = [gatherer for gatherer in self._gatherers if raw is not None or gatherer.admits_null]
        self._counts.nulls += len(self._roots) + len(self._gatherers) - len(takers) - len(gatherers)
        whole = self._mark()
        keyless = [root for root in takers if key_bytes is None and root.needs_key]
        for root in keyless:
            missing = ValueError("the record has no key, but the handler keeps state by key")
            failure = self._refuse(message, NullKey, root.name, root.policy, missing)
            if failure is not None:
                self._undo(whole)
                return Progress(0, failure)
        roots = [root for root in takers if root not in keyless]
        record = Decoded([message], [key_bytes], [state_key], [key], [value], [timestamp])
        progress = self._run_clean(record, roots, gatherers, deadline)
        if progress.failure is not None or progress.wait is not None:
            self._undo(whole)
        return progress

    def _handle(self, attempt: "Attempt", error: Exception) -> Stop | None:
        """Undo what the failed handler did; then retry, drop, or send to the dead letters. What is returned stops the task."""
        root, policy = attempt.root, attempt.root.policy

        def undo() -> None:
            self._undo(attempt.mark)
            if self._context is not None:  # a follower may have left its own record there
                self._fill(self._context, attempt.message, attempt.key, attempt.timestamp)

        undo()
        last = self._retry(policy, error, lambda: root.step(attempt.value, attempt.key, attempt.key_bytes, attempt.timestamp), undo)
        if last is None or isinstance(last, RetryError):
            return last
        return self._refuse(attempt.message, HandlerError, root.name, policy, last)

    def _retry(self, policy: Policy, error: Exception, again: Callable[[], None], undo: Callable[[], None]) -> Exception | None:
        """Try as often as the policy says; the last error, None if a try succeeded. A RetryError ends it: something is away."""
        tries = policy.retries if isinstance(policy, DeadLetter) and isinstance(error, policy.on) else 0
        for _ in range(0 if isinstance(error, RetryError) else tries):
            self._sleep(policy.backoff_ms / 1000 if isinstance(policy, DeadLetter) else 0)
            try:
                again()
            except Exception as latest:  # the same policy, once more
                undo()
                error = latest
                if isinstance(error, RetryError):
                    break
            else:
                return None
        return error

    def _refuse(self, message: Incoming, kind: type[HandlerError], name: str, policy: Policy, error: Exception) -> HandlerError | None:
        """Apply an error policy to a record that leaves no trace but this."""
        if isinstance(error, FolderUnusable):
            raise error  # the copy is damaged, not the record: it is rebuilt
        failure = kind(name, self._topic, self._partition, message.offset() or 0, f"{type(error).__name__}: {_said(error)}")
        failure.__cause__ = error
        if isinstance(error, ConfigError) and not isinstance(error, BadKey | WrongValue):
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
    state_keys: Sequence[bytes | None]
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
        "streamlet-reason": _said(error),
    }
    return [*(message.headers() or ()), *((name, text.encode(errors="backslashreplace")) for name, text in facts.items())]


def _said(error: Exception) -> str:
    """An exception's message, whatever it may be: a header must stay small, and saying it must not fail."""
    try:
        return str(error)[:_MOST_SAID]
    except Exception as worse:  # a __str__ of the app's own
        return f"(no message: {type(worse).__name__})"
