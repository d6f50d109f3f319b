"""Every address of the product, by app."""

from django.contrib import admin
from django.urls import include, path, re_path

from marketplace import api, views
from marketplace.upkeep import health, metrics
from scheduling.app.urls import websocket_urlpatterns as websocket_urlpatterns
from tenants.api.reference.views import api_docs, api_docs_operation, api_docs_tag, api_docs_try
from tenants.api.schema import NoSuchAddress, SchemaView

urlpatterns = [
    path("healthz", views.live, name="live"),
    path("readyz", views.ready, name="ready"),
    path("metrics", metrics.Metrics.as_view(), name="metrics"),
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/schema/", SchemaView.as_view(), name="api_schema"),
    path("api/v1/docs/", api_docs, name="api_docs"),
    path("api/v1/docs/<slug:tag>/", api_docs_tag, name="api_docs_tag"),
    path("api/v1/docs/try/<slug:name>/", api_docs_try, name="api_docs_try"),
    path("api/v1/docs/<slug:tag>/<slug:name>/", api_docs_operation, name="api_docs_operation"),
    path("t/<slug:tenant_slug>/interface/", api_docs, name="tenant_api_docs"),
    path("t/<slug:tenant_slug>/interface/<slug:tag>/", api_docs_tag, name="tenant_api_docs_tag"),
    path("t/<slug:tenant_slug>/interface/try/<slug:name>/", api_docs_try, name="tenant_api_docs_try"),
    path(
        "t/<slug:tenant_slug>/interface/<slug:tag>/<slug:name>/", api_docs_operation, name="tenant_api_docs_operation"
    ),
    path("api/v1/health/", api.Health.as_view(), name="api_health"),
    path("api/v1/ready/", api.Ready.as_view(), name="api_ready"),
    path("api/v1/", include("tenants.api.urls")),
    path("api/v1/", include("scheduling.app.api_urls")),
    re_path(r"^api(/[\s\S]*)?\Z", NoSuchAddress.as_view(), name="api_no_such_address"),
    path("operator/health/", health.operator_health, name="operator_health"),
    path("operator/health/verify/<slug:what>/", health.operator_verify, name="operator_verify"),
    path("", include("tenants.urls")),
    path("", include("scheduling.app.urls")),
]
