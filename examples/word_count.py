"""Count words: the smallest app with state.

streamlet run examples/word_count.py --dev
streamlet send lines "to be or not to be"
streamlet tail counts --app examples/word_count.py --from earliest
"""

from collections.abc import Iterator

from streamlet import App, Record, Value

app = App("word-count")
lines = app.topic("lines", value=str)
counts = app.topic("counts", key=str, value=int)


@app.process(lines)
def split(line: str) -> Iterator[Record[str, int]]:
    """One record per word, keyed by it."""
    for word in line.lower().split():
        yield Record(word, 1)


@app.process(split, to=counts)
def count(n: int, total: Value[int]) -> int:
    """The number of times a word was seen."""
    return total.add(n)


if __name__ == "__main__":
    app.run()
