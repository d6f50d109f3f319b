"""Addresses about the cluster and the market. Under t/<slug>/ the tenant's scope is open (tenants.middleware)."""

from django.urls import path

from scheduling.consumers import MarketConsumer
from scheduling.views import frame, market, servers

urlpatterns = [
    path("t/<slug:tenant_slug>/frame/", frame.tenant_frame, name="tenant_frame"),
    path("t/<slug:tenant_slug>/market/", market.tenant_market, name="tenant_market"),
    path("t/<slug:tenant_slug>/servers/", servers.tenant_servers, name="tenant_servers"),
]

websocket_urlpatterns = [path("ws/t/<slug:tenant_slug>/", MarketConsumer.as_asgi())]
