"""One line per event on standard error, from structlog and logging alike: JSON for machines, plain text for people."""

import logging
from typing import Any

import structlog

from tenants.common.failures import Unavailable, unavailable_of

LONGEST = 200  # characters of an error in the log
SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


class OneLine(logging.Filter):
    """Replace the traceback that Django writes for each exception of a request by one line, if the code is not at
    fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        unavailable = unavailable_of(error)
        if unavailable is not None and error is not None:
            log_unavailable(getattr(getattr(record, "request", None), "path_info", ""), unavailable, error)
        return unavailable is None


class Nonsense(logging.Filter):
    """Drop the traceback of invalid UTF-8 on a socket. `marketplace.web.sockets` writes one line; a traceback
    helps nobody."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError))


def log_unavailable(path: str, unavailable: Unavailable, error: BaseException) -> None:
    first_line = str(error).partition("\n")[0][:LONGEST]
    logging.getLogger(__name__).warning("503 %s: %s: %s", unavailable.code, path, first_line)


def configuration(*, level: str, form: str) -> dict[str, Any]:
    """Return the dictionary for Django's LOGGING. This also configures structlog, so both write the same
    kind of line."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_ending(form)],
                "foreign_pre_chain": SHARED,
            }
        },
        "filters": {
            "one_line": {"()": "marketplace.logs.OneLine"},
            "nonsense": {"()": "marketplace.logs.Nonsense"},
        },
        "handlers": {"standard_error": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["standard_error"], "level": level},
        "loggers": {
            # Django's own handlers would print the same event a second time.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.request": {"filters": ["one_line"], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # The proxy's log has the address of every request.
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
            "uvicorn.error": {"filters": ["nonsense"], "propagate": True},
            "celery": {"level": "WARNING"},
        },
    }


def _ending(form: str) -> list[Any]:
    if form == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # A traceback with the values of variables costs a second, and would write a request's content into the log.
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
