"""Addresses of the interface that belong to tenants and people. Every one ends in a slash."""

from django.urls import path

from tenants.api import me, tokens

urlpatterns = [
    path("me/", me.MeView.as_view(), name="api_me"),
    path("tokens/", tokens.StaffTokens.as_view(), name="api_staff_tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.StaffTokenRevoke.as_view(), name="api_staff_token_revoke"),
    path("tenants/<slug:tenant_slug>/tokens/", tokens.TenantTokens.as_view(), name="api_tokens"),
    path(
        "tenants/<slug:tenant_slug>/tokens/<int:token_id>/revoke/",
        tokens.TenantTokenRevoke.as_view(),
        name="api_token_revoke",
    ),
]
