"""The word count of the contract, and what checkers know about its handlers."""

from collections.abc import Iterator
from typing import assert_type

from streamlet import App, Record, Topic, Value

app = App("word-count")
lines = app.topic("lines", value=str)
counts = app.topic("counts", key=str, value=int)
assert_type(lines, Topic[bytes, str])
assert_type(counts, Topic[str, int])


@app.process(lines)
def split(line: str) -> Iterator[Record[str, int]]:
    for word in line.lower().split():
        yield Record(word, 1)


@app.process(split, to=counts)
def count(n: int, total: Value[int]) -> int:
    return total.add(n)


@app.process(count, to=counts)
def doubled(n: int) -> int | None:
    return n * 2 if n else None


@app.process(doubled)
def follows_an_optional(n: int) -> None:
    del n


@app.process(split)
def takes_the_whole_record(record: Record[str, int]) -> None:
    assert_type(record.key, str)
    assert_type(record.value, int)


@app.process(split)
def takes_more_than_it_must(n: int | str | None) -> None:
    del n


assert_type(count(1, Value(2)), int)
assert_type(doubled(1), int | None)
assert_type(list(split("a b")), list[Record[str, int]])
