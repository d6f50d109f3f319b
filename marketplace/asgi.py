"""The entry of the web process: pages and the interface over HTTP, live pages over websockets."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")
# Only the web process has a pool: it serves many requests at once, and never forks after the pool has started.
os.environ.setdefault("DATABASE_POOL", "true")

import django
from channels.routing import ProtocolTypeRouter

from marketplace.env import settings_load

settings_load()
django.setup(set_prefix=False)

from marketplace.urls import websocket_urlpatterns  # noqa: E402  the models must be loaded before the consumers
from marketplace.web.handler import OneThreadHandler  # noqa: E402
from marketplace.web.sockets import Sockets  # noqa: E402
from tenants.common.patience import process_is  # noqa: E402

process_is("web")
# A thread that returns from the database waits for the thread that computes, by default for up to 5 ms each time.
sys.setswitchinterval(0.0005)

application = ProtocolTypeRouter({"http": OneThreadHandler(), "websocket": Sockets(websocket_urlpatterns)})
