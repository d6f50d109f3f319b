"""Settings for `simulate`, `compare` and `scenario`: they read and write files alone, so they need no others."""

SECRET_KEY = "nothing is signed without a server"  # noqa: S105  Django wants one; no command here uses it
INSTALLED_APPS = ["scheduling.management.offline.OfflineConfig"]
USE_TZ = True
