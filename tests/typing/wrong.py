"""What both checkers must refuse. Each comment is an expected error: one that does not come is an error itself.

Never imported: most of these are refused at declaration too, by tests/streamlet/test_refusals.py.
"""

from collections.abc import Iterator

from streamlet import App, Record, Topic, Value, dead_letter

app = App("wrong")
lines = app.topic("lines", value=str)
counts = app.topic("counts", key=str, value=int)
names = app.topic("names", key=str, value=str)


@app.process(lines)
def split(line: str) -> Iterator[Record[str, int]]:
    yield Record(line, 1)


@app.process(lines)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def narrower_than_its_topic(n: int) -> None:
    del n


@app.process(split)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def narrower_than_its_source(n: bytes) -> None:
    del n


@app.process(split)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def another_key(record: Record[int, int]) -> None:
    del record


@app.process(split, to=counts)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def another_value_than_its_target(n: int) -> str:
    return str(n)


@app.process(split, to=counts)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def others_than_its_target(n: int) -> Iterator[Record[str, str]]:
    yield Record("a", str(n))


@app.process(split, to=names)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def wrong_input_with_target(n: bytes) -> str:
    return str(n)


@app.batch(counts)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def batch_without_a_list(n: int) -> None:
    del n


@app.batch(counts, to=counts)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def batch_of_bare_values(batch: list[Record[str, int]]) -> Iterator[int]:
    yield len(batch)


@app.process(counts, lines)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def two_sources_one_value(n: int) -> None:
    del n


@app.process(lines, size=5)  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def option_of_a_batch(line: str) -> None:
    del line


@app.process(lines, errors="skip")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def policy_by_name(line: str) -> None:
    del line


@app.process("lines")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator]
def topic_by_name(line: str) -> None:
    del line


totals = app.store("totals", Value[int])
texts = app.store("texts", str)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]


@app.process(counts)
def store_of_another_type(n: int, total: Value[str] = totals) -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    total.set(str(n))


split(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
narrow: Topic[str, int] = lines  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
dead_letter(names)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
dead_letter("dead", backoff=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
counts.record("a", "b")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
counts.record(1, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
