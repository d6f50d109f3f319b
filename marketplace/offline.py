"""Settings for `simulate`, `compare`, `scenario` and other commands that only read and write files."""

SECRET_KEY = "nothing is signed without a server"  # noqa: S105  Django wants one; no command here uses it
INSTALLED_APPS = ["scheduling.management.offline.OfflineConfig"]
USE_TZ = True
