"""How logs look: constant sentences with their fields behind them, for people or as JSON lines. Only the command line sets this up."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """For people, or for machines."""

    TEXT = "text"
    JSON = "json"


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a log call gave in `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """`12:30:01.123 INFO  worker  task restored  task=orders/3 term=2`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback behind it if there is one."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        name = record.name.removeprefix("streamlet.")
        line = f"{at} {record.levelname:<7} {name:<8} {record.getMessage()}{'  ' + fields if fields else ''}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info and record.exc_info[0] else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message first, then the fields."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"at": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        line |= {name: value if isinstance(value, int | float | bool | None) else str(value) for name, value in fields_of(record).items()}
        if record.exc_info and record.exc_info[0]:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _ErrorOutput(logging.Handler):
    """Writes to whatever standard error is now: a progress bar stands in for it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line; a formatter or stream that fails must not stop the program."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def set_up_logs(style: LogFormat, level: str = "INFO") -> None:
    """Send the product's logs to standard error."""
    handler = _ErrorOutput()
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else TextFormatter())
    logger = logging.getLogger("streamlet")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
