"""Apps under test as real processes, and an oracle that knows what exactly once must give.

The app counts words by key behind a repartition topic. Whatever happens to its workers, each key's outputs must be
1, 2, 3 … without a gap or a repetition, and every copy of the state must hold the last of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from streamlet.local import LocalKafka
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually

COUNT_APP = """
import os
from collections.abc import Iterator
from streamlet import App, Record, Value

app = App(os.environ["TEST_APP"])
lines = app.topic(os.environ["TEST_APP"] + "-lines", value=str)
counts = app.topic(os.environ["TEST_APP"] + "-counts", key=str, value=int)

@app.process(lines)
def split(line: str) -> Iterator[Record[str, int]]:
    for word in line.split():
        yield Record(word, 1)

@app.process(split, to=counts)
def count(n: int, total: Value[int]) -> int:
    return total.add(n)
"""


class CountedWords:
    """One counting app on one broker: feeds it, runs its worker, and knows what must come out."""

    def __init__(self, kafka: LocalKafka, processes: Processes, name: str, folder: Path, *, partitions: int = 3) -> None:
        self.name, self._kafka, self._processes = name, kafka, processes
        self.state_dir = folder / "state"
        self._file = folder / "app.py"
        self._file.write_text(COUNT_APP)
        self._producer = Producer(kafka.client_config)
        self.expected: Counter[str] = Counter()
        kafka.create_topic(f"{name}-lines", partitions=partitions)
        kafka.create_topic(f"{name}-counts", partitions=partitions)

    def feed(self, lines: Iterable[str]) -> None:
        """Produce lines and remember what they must add up to."""
        for line in lines:
            self._producer.produce(f"{self.name}-lines", line)
            self.expected.update(line.split())
        assert self._producer.flush(30) == 0

    def start_worker(self) -> RunningProcess:
        """Run the app as its user would."""
        env = {"TEST_APP": self.name, "STREAMLET_STATE_DIR": str(self.state_dir), "STREAMLET_BROKERS": self._kafka.bootstrap}
        return self._processes.start_streamlet("run", self._file, name="worker", env=env)

    def outputs(self, within_s: float = 60.0) -> dict[str, list[int]]:
        """Every committed output by key, once there are as many as there must be."""
        found: dict[str, list[int]] = defaultdict(list)
        total = sum(self.expected.values())
        consumer = Consumer(
            {
                **self._kafka.client_config,
                "group.id": f"{self.name}-oracle",
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 5,
            }
        )
        topic = f"{self.name}-counts"
        consumer.assign([TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, 10).topics[topic].partitions])

        def read() -> bool:
            for message in consumer.consume(5000, 0.1):
                assert message.error() is None, message.error()
                found[message.key().decode()].append(int.from_bytes(message.value(), "big"))
            return sum(map(len, found.values())) >= total

        try:
            eventually(read, within_s, f"{total} committed outputs")
            for message in consumer.consume(5000, 0.5):  # whatever comes now is one too many
                found[message.key().decode()].append(int.from_bytes(message.value(), "big"))
        finally:
            consumer.close()
        return dict(found)

    def assert_exactly_once(self) -> None:
        """Each key's outputs are 1, 2, 3 … up to the number of times the word was fed."""
        wrong = {word: numbers for word, numbers in self.outputs().items() if numbers != list(range(1, self.expected[word] + 1))}
        assert not wrong, f"{len(wrong)} words are wrong, for example {next(iter(wrong.items()))}, expected {self.expected}"
