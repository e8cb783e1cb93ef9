"""A real Apache Kafka on this machine, from Python packages alone: no container engine, no installed Java."""

from streamlet.local.cluster import KafkaOptions, LocalKafka

__all__ = ["KafkaOptions", "LocalKafka"]
