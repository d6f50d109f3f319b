"""Addresses of the interface that belong to tenants and people. Every one ends in a slash."""

from django.urls import path

from tenants.api import history, invitations, join_requests, me, members, tenants, tokens

urlpatterns = [
    path("me/", me.MeView.as_view(), name="api_me"),
    path("history/", history.StaffHistory.as_view(), name="api_staff_history"),
    path("tenants/", tenants.Tenants.as_view(), name="api_tenants"),
    path("tenants/<slug:tenant_slug>/", tenants.OneTenant.as_view(), name="api_tenant"),
    path("tenants/<slug:tenant_slug>/history/", history.TenantHistory.as_view(), name="api_history"),
    path("tenants/<slug:tenant_slug>/leave/", members.MemberLeave.as_view(), name="api_member_leave"),
    path("tenants/<slug:tenant_slug>/members/", members.Members.as_view(), name="api_members"),
    path(
        "tenants/<slug:tenant_slug>/members/<int:member_id>/role/", members.MemberRole.as_view(), name="api_member_role"
    ),
    path(
        "tenants/<slug:tenant_slug>/members/<int:member_id>/remove/",
        members.MemberRemove.as_view(),
        name="api_member_remove",
    ),
    path("tenants/<slug:tenant_slug>/invitations/", invitations.Invitations.as_view(), name="api_invitations"),
    path(
        "tenants/<slug:tenant_slug>/invitations/<int:invitation_id>/revoke/",
        invitations.InvitationRevoke.as_view(),
        name="api_invitation_revoke",
    ),
    path("tenants/<slug:tenant_slug>/join-requests/", join_requests.JoinRequests.as_view(), name="api_join_requests"),
    path(
        "tenants/<slug:tenant_slug>/join-requests/open/",
        join_requests.JoinRequestsOpen.as_view(),
        name="api_join_requests_open",
    ),
    path(
        "tenants/<slug:tenant_slug>/join-requests/<int:join_request_id>/accept/",
        join_requests.JoinRequestAccept.as_view(),
        name="api_join_request_accept",
    ),
    path(
        "tenants/<slug:tenant_slug>/join-requests/<int:join_request_id>/decline/",
        join_requests.JoinRequestDecline.as_view(),
        name="api_join_request_decline",
    ),
    path("tokens/", tokens.StaffTokens.as_view(), name="api_staff_tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.StaffTokenRevoke.as_view(), name="api_staff_token_revoke"),
    path("tenants/<slug:tenant_slug>/tokens/", tokens.TenantTokens.as_view(), name="api_tokens"),
    path(
        "tenants/<slug:tenant_slug>/tokens/<int:token_id>/revoke/",
        tokens.TenantTokenRevoke.as_view(),
        name="api_token_revoke",
    ),
]
