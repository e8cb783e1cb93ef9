"""Tests. What they share lives in tests/bed."""
