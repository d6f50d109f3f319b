"""Every address of the product, by app."""

from django.contrib import admin
from django.urls import include, path

from marketplace import views
from scheduling.urls import websocket_urlpatterns as websocket_urlpatterns

urlpatterns = [
    path("healthz", views.live, name="live"),
    path("readyz", views.ready, name="ready"),
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("", include("tenants.urls")),
    path("", include("scheduling.urls")),
]
