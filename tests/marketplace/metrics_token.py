"""`python -m tests.marketplace.metrics_token ADDRESS`: prints a token of this operator, to read figures with."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

if __name__ == "__main__":
    django.setup()
    from django.utils import timezone

    from tenants.access import Refused
    from tenants.models import User
    from tenants.selectors import access_of
    from tenants.services import token_create

    by = access_of(User.objects.get(email=sys.argv[1]), None)
    issued = token_create(name="a test", scopes=["audit:read"], by=by, at=timezone.now())
    if isinstance(issued, Refused):
        sys.exit(issued.sentence)
    sys.stdout.write(issued.secret)
