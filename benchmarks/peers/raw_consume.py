"""The base of the restore ratios: a changelog read from start to end with the restore's client settings, keys and values
taken out of the messages, and nothing kept."""

import argparse
import gc
import json
import time
from collections import deque

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--ends", required=True, help="end offset of each partition, comma-separated")
    arguments = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": arguments.brokers,
            "group.id": "benchmark-raw",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 5,
        }
    )
    ends = dict(enumerate(int(end) for end in arguments.ends.split(",")))
    gc.freeze()
    gc.disable()
    records = 0
    started = time.monotonic()
    consumer.assign([TopicPartition(arguments.topic, number, 0) for number in ends])
    while ends:
        batch = consumer.consume(2000, 0.02)
        if any(map(Message.error, batch)):
            for message in batch:
                if (error := message.error()) and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error and (message.offset() or 0) >= ends.get(message.partition() or 0, 0):
                    ends.pop(message.partition() or 0, None)
            batch = [message for message in batch if not message.error()]
        deque(zip(map(Message.key, batch), map(Message.value, batch), strict=True), 0)
        records += len(batch)
    print(json.dumps({"records": records, "seconds": time.monotonic() - started}))
    consumer.close()


if __name__ == "__main__":
    main()
