"""Every address of the product that answers with a page, and where it is looked at; or why it is not.

`{...}` are places of tests.browser.world. A new page without a line here fails the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.urls import URLPattern, URLResolver, get_resolver

from tenants.roles import OPERATOR, OWNER, STAFF_ROLES

TENANT = {
    "tenant_home": [""],
    "tenant_market": ["market/"],
    "tenant_servers": ["servers/", "servers/?window=96"],
    "tenant_share": ["share/"],
    "tenant_plans": ["share/plans/"],
    "tenant_how": ["how-it-works/", "how-it-works/?workers=16&worth=oops"],
    "tenant_glossary": ["glossary/"],
    "tenant_use": ["use/?of=pool", "use/?span=week", "use/?span=month"],
    "tenant_ledger": ["ledger/", "ledger/?job=999999", "ledger/?sort=-held"],
    "tenant_statements": ["statements/"],
    "tenant_statement": ["statements/period/", "statements/period/?print"],
    "intervals": ["intervals/"],
    "interval": ["intervals/{pool}/1/"],
    "job_submit": ["submit/", "submit/?by=script", "submit/?by=detail"],
    "tenant_jobs": ["jobs/", "jobs/?name=nothing-like-this", "jobs/?array={array}"],
    "job": [f"jobs/{{{name}}}/" for name in ("ended", "running", "renting", "poor", "waiting", "sized")],
    "job_cancel": ["jobs/{running}/cancel/"],
    "array_cancel": ["jobs/arrays/{array}/cancel/"],
    "tenant_members": ["members/"],
    "member_remove": ["members/{member}/remove/"],
    "tenant_tokens": ["tokens/"],
    "tenant_programs": ["programs/"],
    "tenant_program_new": ["programs/new/"],
    "tenant_program": ["programs/of/operator/trainer/", "programs/of/operator/{program}/"],
    "tenant_webhooks": ["webhooks/"],
    "tenant_webhook": ["webhooks/{webhook}/"],
    "webhook_remove": ["webhooks/{webhook}/remove/"],
    "tenant_history": ["history/"],
    "tenant_fairness": ["fairness/", "fairness/?from=2001-01-01&to=2001-01-02"],
    "tenant_fairness_interval": ["fairness/{pool}/intervals/2/"],
    "tenant_what_ifs": ["what-if/", "what-if/?interval=99999"],
    "tenant_what_if_ask": [
        "intervals/{pool}/{rented}/what-if/",
        "intervals/{pool}/{rented}/what-if/?job={renting}&field=worker_demand",
        "intervals/{pool}/1/what-if/",
    ],
    "job_charge": ["jobs/{ended}/charge/"],
    "tenant_lab": ["lab/"],
    "tenant_api_docs": ["interface/", "interface/?q=jobs"],
    "tenant_api_docs_tag": ["interface/jobs/"],
    "tenant_api_docs_operation": ["interface/jobs/jobs_create/"],
    "tenant_lab_study": ["lab/{study}/"],
}
OF_OWNER = {"tenant_what_if": ["what-if/{what_if}/", "what-if/{what_if_waits}/"]}  # asked by the owner: not others'
ACCOUNT = {
    "home": ["/"],
    "how": ["/how-it-works/"],
    "glossary": ["/glossary/"],
    "my_tenants": ["/mine/"],
    "notices": ["/notices/", "/notices/?show=unread"],
    "notice_choices": ["/notices/choices/"],
    "notices_guide": ["/notices/guide/"],
    "account_change_password": ["/accounts/password/change/"],
    "account_email": ["/accounts/email/"],
    "account_reauthenticate": ["/accounts/reauthenticate/"],
    "account_logout": ["/accounts/logout/"],
    "mfa_index": ["/accounts/2fa/"],
    "mfa_activate_totp": ["/accounts/2fa/totp/activate/"],
    "mfa_reauthenticate": ["/accounts/2fa/reauthenticate/"],
    "api_docs": ["/api/v1/docs/", "/api/v1/docs/?q=nothing-like-this"],
    "api_docs_tag": [f"/api/v1/docs/{tag}/" for tag in ("jobs", "events", "fairness", "health")],
    "api_docs_operation": [
        f"/api/v1/docs/{place}/"
        for place in ("jobs/jobs_create", "jobs/jobs_read", "fairness/fairness_read", "health/ready_read")
    ],
}
STAFF = {
    "overview": ["/overview/"],
    "all_jobs": ["/overview/jobs/", "/overview/jobs/?name=nothing-like-this"],
    "tenants": ["/tenants/"],
    "staff": ["/staff/"],
    "claims": ["/claims/"],
    "staff_tokens": ["/tokens/"],
    "history": ["/history/"],
    "operator_servers": ["/operator/servers/"],
    "operator_server": ["/operator/servers/{server}/"],
    "operator_cells": ["/operator/cells/"],
    "operator_server_cells": ["/operator/cells/{server}/"],
    "operator_pools": ["/operator/pools/"],
    "operator_pool": ["/operator/pools/{pool}/", "/operator/pools/{elastic}/"],
    "operator_ran": ["/operator/pools/{pool}/ran/"],
    "operator_learning": ["/operator/pools/{learnt}/learning/", "/operator/pools/{pool}/learning/"],
    "operator_credits": ["/operator/credits/"],
    "operator_programs": ["/operator/programs/"],
    "operator_program": ["/operator/programs/of/operator/{program}/"],
    "operator_health": ["/operator/health/"],
    "fairness": ["/fairness/", "/fairness/?from=2001-01-01&to=2001-01-02"],
    "fairness_intervals": ["/fairness/pools/{pool}/intervals/", "/fairness/pools/{pool}/intervals/?what=broken"],
    "fairness_interval": ["/fairness/pools/{pool}/intervals/2/"],
    "fairness_alerts": ["/fairness/pools/{pool}/alerts/"],
    "what_ifs": ["/fairness/what-if/"],
    "what_if": ["/fairness/what-if/{what_if}/"],
    "what_if_ask": ["/fairness/pools/{pool}/intervals/{rented}/what-if/"],
    "audits": ["/fairness/audits/"],
    "audit": ["/fairness/audits/{audit}/"],
    "lab": ["/lab/"],
    "lab_new": ["/lab/new/"],
    "lab_study": ["/lab/{study}/", "/lab/{study_ready}/"],
    "lab_remove": ["/lab/{study}/remove/"],
}
OF_OPERATOR = {  # changes are not the auditor's
    "operator_program_new": ["/operator/programs/new/?copy=torchrun"],
    "operator_cluster_import": ["/operator/pools/{pool}/import/"],
    "operator_secrets": ["/operator/secrets/"],
}
NOBODY = {
    "home": ["/"],
    "account_login": ["/accounts/login/"],
    "account_signup": ["/accounts/signup/"],
    "account_reset_password": ["/accounts/password/reset/"],
    "account_reset_password_done": ["/accounts/password/reset/done/"],
    "account_reset_password_from_key": ["/accounts/password/reset/key/1-wrong/"],
    "account_reset_password_from_key_done": ["/accounts/password/reset/key/done/"],
    "account_email_verification_sent": ["/accounts/confirm-email/"],
    "account_confirm_email": ["/accounts/confirm-email/wrong/"],
    "account_inactive": ["/accounts/inactive/"],
    "notices_stop": ["/notices/stop/{stop}/"],
    "invitation_open": ["/invitation/{invitation}/"],
    "invitation": ["/invitation/"],
    "ready": ["/readyz"],
}
# Answers without a page of their own: they change something and lead back, or are a part, a file or a sign of life.
NO_PAGE = {
    "live", "metrics", "api_health", "api_ready", "tenant_frame", "job_quote", "operator_verify", "api_schema",
    "member_role_change", "member_leave", "invitation_create", "invitation_revoke",
    "join_ask", "join_withdraw", "join_accept", "join_decline", "may_be_asked",
    "owner_invite_again", "owner_withdraw", "staff_token_create", "staff_token_revoke",
    "invitation_accept", "token_create", "token_revoke", "staff_grant", "staff_revoke",
    "claims_try", "claim_mapping_add", "claim_mapping_change", "claim_mapping_remove",
    "operator_server_capacity", "operator_server_state", "operator_server_lose", "operator_pool_create",
    "operator_pool_steps", "operator_use_prices", "audit_start", "audit_cancel", "audit_file", "tenant_what_if_cancel",
    "what_if_cancel", "api_docs_try", "tenant_api_docs_try", "operator_server_add", "budget_change",
    "jobs_cancel", "jobs_view_save", "jobs_view_remove", "job_queue", "job_log", "job_file",
    "tenant_program_retire", "tenant_program_archive", "operator_program_retire", "operator_program_archive",
    "operator_programs_allow", "operator_servers_return", "operator_secret_remove",
    "operator_learner", "operator_weights",
    "lab_choices", "lab_start", "lab_cancel", "lab_resume", "lab_show", "lab_report", "lab_figures",
    "notices_read", "notice_chat",
    "webhook_create", "webhook_change", "webhook_secret", "webhook_replay",
    "mfa_recovery_codes_download", "mfa_download_recovery_codes", "openid_connect_login", "openid_connect_callback",
}  # fmt: skip
# Pages of allauth that only somebody halfway through something sees; their templates are those of the pages above.
HALFWAY = {
    "account_set_password", "account_confirm_login_code", "mfa_authenticate", "mfa_deactivate_totp",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes",
    "socialaccount_login_cancelled", "socialaccount_login_error", "socialaccount_signup", "socialaccount_connections",
}  # fmt: skip


def visited() -> set[str]:
    return {name for table in (TENANT, OF_OWNER, ACCOUNT, STAFF, OF_OPERATOR, NOBODY) for name in table}


def addresses(places: dict[str, str], role: str) -> list[str]:
    """What this role looks at, in its own tenant Lumen or over all. Pages of the account do not know of roles."""
    own = OF_OWNER if role == OWNER or role in STAFF_ROLES else {}
    inside = [f"/t/lumen/{path}" for paths in (TENANT | own).values() for path in paths]
    around = [ACCOUNT] * (role in (OWNER, OPERATOR)) + [STAFF] * (role in STAFF_ROLES)
    around += [OF_OPERATOR] * (role == OPERATOR)
    paths = inside + [path for table in around for each in table.values() for path in each]
    return [path.format(**places) for path in paths]


def before_the_log_in(places: dict[str, str]) -> list[str]:
    return [path.format(**places) for paths in NOBODY.values() for path in paths]


def names() -> set[str]:
    """Every address of the product by its name, but Django's admin and the interface for programs."""
    return set(_names(get_resolver().url_patterns))


def _names(patterns: Iterable[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        route = str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if route not in ("admin/", "api/v1/"):
                yield from _names(pattern.url_patterns)
        elif pattern.name and pattern.name != "api_no_such_address":
            yield pattern.name
