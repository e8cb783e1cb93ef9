"""Stream applications in plain Python on Kafka.

This module is the contract with app authors: what `__all__` names stays; everything else may change.
It stays light, since Python runs it before any sub-package: no client library is imported here.
"""

from streamlet.errors import ConfigError, FencedError, HandlerError, RetryError, StateError, StreamletError

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "FencedError",
    "HandlerError",
    "RetryError",
    "StateError",
    "StreamletError",
    "__version__",
]
