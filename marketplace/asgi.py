"""The entry of the web process: pages and programs over HTTP, live pages over websockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")
# Only the web process keeps a pool: it serves many requests at once, and never forks after the pool has started.
os.environ.setdefault("DATABASE_POOL", "true")

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator

django.setup(set_prefix=False)

from marketplace.handler import OneThreadHandler  # noqa: E402
from marketplace.urls import websocket_urlpatterns  # noqa: E402  the models must be loaded before the consumers

application = ProtocolTypeRouter(
    {
        "http": OneThreadHandler(),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
