"""The sign of life of the workers. Apart from the tasks: Celery reads it before Django's apps are there."""

HEARTBEAT_KEY = "worker-heartbeat"
HEARTBEAT_SECONDS = 10
