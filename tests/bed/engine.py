"""Apps under test as real processes, and an oracle that knows what exactly once must give.

The app counts words by key behind a repartition topic. Whatever happens to its workers, each key's outputs must be
1, 2, 3 … without a gap or a repetition, and every copy of the state must hold the last of them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streamlet.changelog.kafka import LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.ids import StoreName
from streamlet.local import LocalKafka
from streamlet.state.entries import RESERVED
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.values import value_codec
from tests.bed.changelogs import replay_all
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


KEEP_APP = """
import os
from streamlet import App, Value

app = App(os.environ["TEST_APP"])
entries = app.topic(os.environ["TEST_APP"] + "-entries", key=str, value=int)

@app.process(entries)
def keep(number: int, held: Value[int]) -> None:
    if number < 0:
        held.delete()
    elif held.get() != number:
        held.set(number)
"""


class AppUnderTest:
    """One app on one broker, its file, its state folder and its workers."""

    def __init__(self, kafka: LocalKafka, processes: Processes, name: str, folder: Path, source: str) -> None:
        self.name, self.kafka, self._processes = name, kafka, processes
        self.state_dir = folder / "state"
        self._file = folder / "app.py"
        self._file.write_text(source)
        self.producer = Producer({**kafka.client_config, "partitioner": "murmur2_random", "linger.ms": 5})

    def start_worker(self, *options: str, name: str = "worker") -> RunningProcess:
        """Run the app as its user would."""
        env = {"TEST_APP": self.name, "STREAMLET_STATE_DIR": str(self.state_dir), "STREAMLET_BROKERS": self.kafka.bootstrap}
        return self._processes.start_streamlet("run", self._file, *options, name=name, env=env)

    def steer(self, command: str, *arguments: str) -> str:
        """One of the commands that people steer an app with; what it printed."""
        asked = self._processes.start_streamlet(command, self.name, *arguments, "--brokers", self.kafka.bootstrap, name=command)
        code = asked.wait(60)
        assert code == 0, f"{command} ended with {code}: {asked.log()}"
        return asked.log()

    def wait_until_processed(self, topic: str, within_s: float = 60.0) -> None:
        """Wait until the group's committed offsets are the ends of the input."""
        consumer = Consumer({**self.kafka.client_config, "group.id": self.name})
        partitions = [Partition(topic, number) for number in consumer.list_topics(topic, 10).topics[topic].partitions]
        wanted = {p: end for p, end in LogOffsets(self.kafka.client_config).ends(partitions).items() if end > 0}

        def processed() -> bool:
            try:
                found = consumer.committed([TopicPartition(p.topic, p.number) for p in wanted], 10)
            except KafkaException:  # a young broker does not know yet who keeps the group's offsets, or they are undecided
                return False
            return all(tp.offset >= wanted[Partition(tp.topic, tp.partition)] for tp in found)

        try:
            eventually(processed, within_s, f"{topic} to be processed to its end")
        finally:
            consumer.close()

    def copies(self, task: str) -> list[Path]:
        """The folders of a task's local copies, by partition, without those set aside."""
        return sorted(path for path in (self.state_dir / self.name / "0" / task).iterdir() if path.name.isdecimal())


class KeptEntries(AppUnderTest):
    """An app that keeps the last number per key, where a negative one deletes; knows what must be kept."""

    STORE = StoreName("keep-held")

    def __init__(self, kafka: LocalKafka, processes: Processes, name: str, folder: Path, *, partitions: int = 1) -> None:
        super().__init__(kafka, processes, name, folder, KEEP_APP)
        self.topic, self.partitions = f"{name}-entries", partitions
        self.expected: dict[str, int] = {}
        kafka.create_topic(self.topic, partitions=partitions)

    def feed(self, entries: Iterable[tuple[str, int]]) -> None:
        """Produce entries and remember what they leave."""
        for key, number in entries:
            while True:
                try:
                    self.producer.produce(self.topic, number.to_bytes(8, "big", signed=True), key)
                    break
                except BufferError:
                    self.producer.poll(0.05)
            if number < 0:
                self.expected.pop(key, None)
            else:
                self.expected[key] = number
        assert self.producer.flush(30) == 0

    def run_once(self, within_s: float = 60.0) -> RunningProcess:
        """Start a worker, wait until it is restored and the input is processed, and let it end in peace."""
        worker = self.start_worker()
        eventually(lambda: len(replayed(worker)) == self.partitions or worker.exit_code is not None, within_s, "all tasks to be restored")
        self.wait_until_processed(self.topic, within_s)
        worker.terminate()
        assert worker.wait(20) == 0, worker.log()
        return worker

    def stored(self) -> dict[str, int]:
        """What the local copies hold."""
        found: dict[str, int] = {}
        for folder in self.copies(self.topic):
            backend = RocksBackend.open(folder, [self.STORE])
            try:
                found |= readable(backend.scan(self.STORE))
            finally:
                backend.close()
        return found

    def changelog(self, number: int = 0) -> Partition:
        """One partition of the changelog."""
        return Partition(f"{self.name}-{self.STORE}-changelog", number)

    def logged(self) -> dict[str, int]:
        """What the changelog says, read committed, last value per key."""
        return {
            key: number
            for p in range(self.partitions)
            for key, number in readable(replay_all(self.kafka, self.changelog(p)).state.items()).items()
        }


def readable(entries: Iterable[tuple[bytes, bytes]]) -> dict[str, int]:
    """Entries of a store from str to int; the reserved one is left out."""
    decode = value_codec(int).decode
    return {key.decode(): decode(value) for key, value in entries if key != RESERVED}


def read_numbers(kafka: LocalKafka, topic: str, count: int, within_s: float = 60.0) -> dict[str, list[int]]:
    """Every committed number of a topic by key, in order, once there are `count`; one too many shows as well."""
    found: dict[str, list[int]] = defaultdict(list)
    settings = {"group.id": f"{topic}-oracle", "isolation.level": "read_committed", "fetch.queue.backoff.ms": 5}
    consumer = Consumer({**kafka.client_config, **settings})
    consumer.assign([TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, 10).topics[topic].partitions])

    def take(wait_s: float) -> None:
        for message in consumer.consume(5000, wait_s):
            assert message.error() is None, message.error()
            found[message.key().decode()].append(int.from_bytes(message.value(), "big"))

    def enough() -> bool:
        take(0.1)
        return sum(map(len, found.values())) >= count

    try:
        eventually(enough, within_s, f"{count} committed records of {topic}")
        take(0.5)  # whatever comes now is one too many
    finally:
        consumer.close()
    return dict(found)


def replayed(worker: RunningProcess) -> dict[str, int]:
    """How many records each task of a worker replayed at its start, by its log."""
    return {task: int(records) for task, records in re.findall(r"task restored\s.*?task=(\S+) .*?records=(\d+)", worker.log())}


class CountedWords(AppUnderTest):
    """One counting app on one broker: feeds it, runs its worker, and knows what must come out."""

    STORE = StoreName("count-total")

    def __init__(self, kafka: LocalKafka, processes: Processes, name: str, folder: Path, *, partitions: int = 3) -> None:
        super().__init__(kafka, processes, name, folder, COUNT_APP)
        self.partitions = partitions
        self.expected: Counter[str] = Counter()
        kafka.create_topic(f"{name}-lines", partitions=partitions)
        kafka.create_topic(f"{name}-counts", partitions=partitions)

    def feed(self, lines: Iterable[str]) -> None:
        """Produce lines and remember what they must add up to."""
        for line in lines:
            self.producer.produce(f"{self.name}-lines", line)
            self.expected.update(line.split())
        assert self.producer.flush(30) == 0

    def outputs(self, within_s: float = 60.0) -> dict[str, list[int]]:
        """Every committed output by key, once there are as many as there must be."""
        return read_numbers(self.kafka, f"{self.name}-counts", sum(self.expected.values()), within_s)

    def stored(self) -> dict[str, int]:
        """What the local copies hold, over all tasks of the counting handler."""
        found: dict[str, int] = {}
        for folder in self.copies("split"):
            backend = RocksBackend.open(folder, [self.STORE])
            try:
                found |= readable(backend.scan(self.STORE))
            finally:
                backend.close()
        return found

    def logged(self) -> dict[str, int]:
        """What the changelogs say, read committed, last value per key."""
        found: dict[str, int] = {}
        for number in range(self.partitions):
            found |= readable(replay_all(self.kafka, self.changelog(number)).state.items())
        return found

    def changelog(self, number: int) -> Partition:
        """One partition of the counts' changelog."""
        return Partition(f"{self.name}-{self.STORE}-changelog", number)

    def assert_exactly_once(self) -> None:
        """Each key's outputs are 1, 2, 3 … up to the number of times the word was fed."""
        wrong = {word: numbers for word, numbers in self.outputs().items() if numbers != list(range(1, self.expected[word] + 1))}
        assert not wrong, f"{len(wrong)} words are wrong, for example {next(iter(wrong.items()))}, expected {self.expected}"
