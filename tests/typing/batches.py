"""Batches with resources, task-level state, and state over all keys."""

from collections.abc import Iterator, Sequence
from typing import Annotated, assert_type

import msgspec

from streamlet import App, ByKey, Log, PerTask, Record, Set, Value, milliseconds, state


class Event(msgspec.Struct, frozen=True):
    id: str
    x: float


class Model:
    def predict(self, xs: Sequence[float]) -> list[float]:
        return [x * 2 for x in xs]

    def close(self) -> None: ...


app = App("scores")
events = app.topic("events", key=str, value=Event)
scores = app.topic("scores", key=str, value=float)


@app.resource
def model() -> Iterator[Model]:
    loaded = Model()
    yield loaded
    loaded.close()


assert_type(model, Model)


@app.batch(events, to=scores, size=500)
def score(
    batch: list[Record[str, Event]], seen: Annotated[PerTask[Set[str]], state(name="seen")], m: Model = model
) -> Iterator[Record[str, float]]:
    fresh = [r for r in batch if seen.add(r.value.id)]
    yield from (Record(r.key, p) for r, p in zip(fresh, m.predict([r.value.x for r in fresh]), strict=True))


@app.batch(events, size=10, within=milliseconds(50))
def tally(batch: list[Record[str, Event]], totals: ByKey[str, Value[int]]) -> None:
    for record in batch:
        assert_type(totals[record.key].add(1), int)


@app.batch(events)
def values_only(batch: list[Event], last: PerTask[Log[Event]]) -> None:
    for event in batch:
        last.append(event)


@app.process(score)
def follows_a_batch(p: float, highest: Value[float] = state(name="highest")) -> None:
    highest.set(max(p, highest.get(0.0)))


assert_type(list(score([], Set[str](), Model())), list[Record[str, float]])
