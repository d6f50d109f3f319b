"""Addresses about people and tenants. `tenants.requests.middleware` opens that tenant's scope below t/<slug>/."""

from django.urls import URLPattern, URLResolver, include, path

from tenants.views import claims, history, home, invitations, join_requests, members, staff, staff_tokens, tokens

tenant_patterns: list[URLPattern | URLResolver] = [
    path("", home.tenant_home, name="tenant_home"),
    path("members/", members.members, name="tenant_members"),
    path("members/<int:pk>/role/", members.member_role_change, name="member_role_change"),
    path("members/<int:pk>/remove/", members.member_remove, name="member_remove"),
    path("leave/", members.member_leave, name="member_leave"),
    path("invitations/", members.invitation_create, name="invitation_create"),
    path("invitations/<int:pk>/revoke/", members.invitation_revoke, name="invitation_revoke"),
    path("join-requests/open/", join_requests.may_be_asked, name="may_be_asked"),
    path("join-requests/<int:pk>/accept/", join_requests.join_accept, name="join_accept"),
    path("join-requests/<int:pk>/decline/", join_requests.join_decline, name="join_decline"),
    path("tokens/", tokens.tokens, name="tenant_tokens"),
    path("tokens/make/", tokens.token_create, name="token_create"),
    path("tokens/<int:pk>/revoke/", tokens.token_revoke, name="token_revoke"),
    path("history/", history.tenant_history, name="tenant_history"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("mine/", home.my_tenants, name="my_tenants"),
    path("mine/ask/", join_requests.join_ask, name="join_ask"),
    path("mine/ask/<int:pk>/withdraw/", join_requests.join_withdraw, name="join_withdraw"),
    path("t/<slug:tenant_slug>/", include(tenant_patterns)),
    path("invitation/", invitations.invitation, name="invitation"),
    path("invitation/accept/", invitations.invitation_accept, name="invitation_accept"),
    path("invitation/<str:token>/", invitations.invitation_open, name="invitation_open"),
    path("tenants/", staff.tenants, name="tenants"),
    path("tenants/invitations/<int:pk>/again/", staff.owner_invite_again, name="owner_invite_again"),
    path("tenants/invitations/<int:pk>/withdraw/", staff.owner_withdraw, name="owner_withdraw"),
    path("tokens/", staff_tokens.staff_tokens, name="staff_tokens"),
    path("tokens/make/", staff_tokens.staff_token_create, name="staff_token_create"),
    path("tokens/<int:pk>/revoke/", staff_tokens.staff_token_revoke, name="staff_token_revoke"),
    path("staff/", staff.staff, name="staff"),
    path("staff/grant/", staff.staff_grant, name="staff_grant"),
    path("staff/<int:pk>/revoke/", staff.staff_revoke, name="staff_revoke"),
    path("claims/", claims.claims, name="claims"),
    path("claims/try/", claims.claims_try, name="claims_try"),
    path("claims/add/", claims.claim_mapping_add, name="claim_mapping_add"),
    path("claims/<int:pk>/change/", claims.claim_mapping_change, name="claim_mapping_change"),
    path("claims/<int:pk>/remove/", claims.claim_mapping_remove, name="claim_mapping_remove"),
    path("history/", history.history, name="history"),
]
