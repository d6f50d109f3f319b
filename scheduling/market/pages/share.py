"""The page My share: how the tenant's units are used, who rents them, the tenant's instructions for that, and
budgets."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from scheduling.cluster import pool_list, pool_overview
from scheduling.cluster.pages.pools import pool_asked
from scheduling.market.pages.context import frame_in
from scheduling.market.reads.share import share_view
from scheduling.models import Pool
from scheduling.money import limits, rent_spent
from scheduling.money.pages.budgets import BudgetForm
from scheduling.sharing import sharing_change, sharing_of
from scheduling.sharing.pages.form import SharingForm
from tenants.access import AccessRequest, Refused
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import member_list
from tenants.views.gate import open_tenant, posted_from, requires, tell
from tenants.views.parts import part_or_page

PARTS = {
    "lead": "market/share_lead.html",
    "units": "market/share_units.html",
    "money": "market/share_money.html",
}


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.QUOTA_VIEW)
def tenant_share(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the share in one pool: `?pool=slug`, or the one chosen last. A POST changes the instructions there."""
    pools = pool_list()
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "My share"})
    if request.method == "POST":
        form = SharingForm(pool, request.POST, policy=sharing_of(open_tenant(request), pool))
        return _changed(request, pool, form) or _page(request, pools, pool, form)
    return _page(request, pools, pool, None)


def _changed(request: AccessRequest, pool: Pool, form: SharingForm) -> HttpResponse | None:
    """Change the instructions. Return None if they were not changed; then the form has the error."""
    if not form.is_valid():
        return None
    outcome = sharing_change(
        pool=pool, sharing=form.sharing(), by=request.access, at=timezone.now(), reason=form.cleaned_data["reason"]
    )
    if isinstance(outcome, Refused):
        form.add_error(None, outcome.sentence)
        return None
    messages.success(request, "Saved. It holds from the next interval on; what was promised before stays.")
    return _to_what_is_said(request, pool)


@posted_from("tenant_share")
@requires(Permission.BUDGETS_CHANGE)
def budget_change(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Set a budget, or remove it if the button `remove` was pressed. What is refused stays in the form of the page."""
    form, at = BudgetForm(request.POST), timezone.now()
    pools = pool_list()
    pool = pool_asked(request, pools)
    if form.is_valid() and "remove" in request.POST:
        tell(request, form.lift_budget(by=request.access, at=at), "The budget is lifted.")
        return _to_what_is_said(request, pool)
    if form.is_valid():
        outcome = form.set_budget(by=request.access, at=at)
        if not isinstance(outcome, Refused):
            tell(request, outcome, "The budget is set. It holds from the next decision on.")
            return _to_what_is_said(request, pool)
        form.add_error(None, outcome.sentence)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "My share"})
    messages.error(request, "Nothing was changed: see what the form of budgets says.")
    return _page(request, pools, pool, None, form)


def _to_what_is_said(request: AccessRequest, pool: Pool | None) -> HttpResponse:
    """Lead to the head of the page, where what was done is said. Without a fragment of its own the address would get
    that of the form, which is far below."""
    query = f"?pool={pool.slug}" if pool else ""
    return redirect(f"{reverse('tenant_share', args=[open_tenant(request).slug])}{query}#main")


def _page(
    request: AccessRequest,
    pools: list[Pool],
    pool: Pool,
    form: SharingForm | None,
    budget_form: BudgetForm | None = None,
) -> HttpResponse:
    tenant, now = open_tenant(request), timezone.now()
    money = request.access.allows(Permission.LEDGER_VIEW)
    overview = pool_overview(pool)
    share = share_view(tenant=tenant, pool=pool, at=now, money=money, overview=overview)
    budgets = limits(tenant_ids=[tenant.pk], at=now) if request.access.allows(Permission.BUDGETS_VIEW) else ()
    named = [row.member_id for row in budgets if row.member_id]
    people = User.objects.in_bulk(named) if named else {}
    sets = request.access.allows(Permission.BUDGETS_CHANGE)
    spent = rent_spent(pool, at=now).get(tenant.pk, 0) if money and share.policy.budget is not None else 0
    context = {
        "tenant": tenant,
        "pools": pools,
        "pool": pool,
        "share": share,
        "frame": frame_in(request.access, tenant, pool, overview),
        "form": form or SharingForm(pool, policy=share.policy, kinds=overview.kinds),
        "budgets": [(row, people.get(row.member_id or 0)) for row in budgets],
        "budget_form": budget_form or BudgetForm(),
        "budget_left": None if share.policy.budget is None else max(share.policy.budget - spent, 0),
        "members": member_list() if sets else [],
        "as_of": now,
    }
    return part_or_page(request, "market/share.html", PARTS, context)
