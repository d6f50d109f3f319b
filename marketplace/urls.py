"""Every address of the product, by app."""

from typing import Any

from django.contrib import admin
from django.urls import include, path

from marketplace import views

urlpatterns = [
    path("healthz", views.live, name="live"),
    path("readyz", views.ready, name="ready"),
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("", include("tenants.urls")),
    path("", include("scheduling.urls")),
]

websocket_urlpatterns: list[Any] = []
