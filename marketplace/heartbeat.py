"""The workers' sign of life. It is apart from the tasks because Celery reads it before Django's apps are loaded."""

HEARTBEAT_KEY = "worker-heartbeat"
HEARTBEAT_SECONDS = 10
