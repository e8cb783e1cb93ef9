"""A real Apache Kafka on this machine, from Python packages alone."""
