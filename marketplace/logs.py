"""One line per event on standard error: JSON for machines, plain text for people. Both ways in (structlog, logging)."""

from typing import Any

import structlog

SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configuration(*, level: str, form: str) -> dict[str, Any]:
    """The dictionary for Django's LOGGING. Also points structlog at it, so both end in the same line."""
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
        "handlers": {"standard_error": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["standard_error"], "level": level},
        "loggers": {
            # Django's own handlers would print the same event a second time.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # The address of every request is the business of the proxy's log.
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
            "celery": {"level": "WARNING"},
        },
    }


def _ending(form: str) -> list[Any]:
    if form == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # A traceback with the values of variables costs a second, and would write into the log what a request carried.
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
