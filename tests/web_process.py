"""`python -m tests.web_process HOST PORT` is the product's own web process, whose static files a browser keeps, as
it does in production. Otherwise each page would request all of them again. axe-core is beside them, and is compiled
once."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings

from marketplace.web import process as web

VENDOR = Path(__file__).parent / "browser" / "vendor"

if __name__ == "__main__":
    settings.WHITENOISE_AUTOREFRESH = False
    settings.WHITENOISE_MAX_AGE = 3600
    settings.STATIC_ROOT = None  # nothing was collected
    settings.STATICFILES_DIRS = [*settings.STATICFILES_DIRS, VENDOR]
    web.main(*sys.argv[1:])
