"""Typed state: its key layout, stored values, cache and backends."""
