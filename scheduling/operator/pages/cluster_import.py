"""The page that brings in a cluster: it shows the servers that would be made, takes their owners, and makes them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from scheduling.models import Pool
from scheduling.operator.cluster_import import (
    ACCOUNT,
    PARTITION,
    EngineCluster,
    ServerChange,
    Units,
    cluster_changes,
    cluster_import,
    cluster_of,
    owners_read,
)
from scheduling.operator.pages.changes import ChangeForm, PageChange, answer
from tenants.access import AccessRequest, Refused
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import requires

CHANGED = "The cluster has changed since it was shown. Look at it again, and confirm what it has now."


class OwnersField(forms.CharField):
    """Read lines "n1: physics", "partition:fast: physics" or "account:phys: physics" as tenants by server, partition or
    account."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input mono"})

    def to_python(self, value: Any) -> Any:
        table: dict[str, str] = {}
        for line in (super().to_python(value) or "").splitlines():
            name, colon, tenant = (part.strip() for part in line.rpartition(":"))
            if not line.strip():
                continue
            if not (name and colon and tenant) or name in table:
                raise forms.ValidationError(f"“{line.strip()}” is not a server, a colon and a tenant, each once.")
            table[name] = tenant
        return table


def _possible_owners() -> list[tuple[str, str]]:
    return [("", "The operator"), *Tenant.objects.order_by("name").values_list("slug", "name")]


class ImportForm(ChangeForm):
    """The owners of the new servers. `shown` is the digest of the cluster that the page showed."""

    refused = ""  # why nothing can be shown before the form is sent
    owner = forms.ChoiceField(choices=_possible_owners, required=False, label="Owner of the new servers")
    owners = OwnersField(
        required=False,
        label="Other owners",
        help_text=(
            f"One a line: a server, {PARTITION}NAME, or {ACCOUNT}NAME (of Slurm, to which a partition is kept), "
            "a colon, and the tenant's short name."
        ),
    )
    shown = forms.CharField(widget=forms.HiddenInput)
    fields_of = MappingProxyType({"unknown_server": "owners", "unknown_tenant": "owners"})

    def __init__(self, pool: Pool, cluster: EngineCluster, *args: Any, **kwargs: Any) -> None:
        self.pool, self.cluster = pool, cluster
        self.changes: list[ServerChange] = []
        super().__init__(*args, **kwargs)
        self.initial["shown"] = cluster.digest
        if not self.is_bound:
            self._look("", {})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "shown" in cleaned and cleaned["shown"] != self.cluster.digest:
            self.add_error(None, CHANGED)
            self.data = {**self.data, "shown": self.cluster.digest}
        self._look(cleaned.get("owner", ""), cleaned.get("owners", {}))
        return cleaned

    def _look(self, owner: str, table: dict[str, str]) -> None:
        changes = cluster_changes(pool=self.pool, cluster=self.cluster, owners=owners_read(table, owner))
        if not isinstance(changes, Refused):
            self.changes = changes
        elif self.is_bound:
            self.complain(changes)
        else:
            self.refused = changes.sentence

    def moves(self) -> list[PageChange]:
        return [_move(change) for change in self.changes]


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.CLUSTER_CHANGE)
def operator_cluster_import(request: AccessRequest, slug: str) -> HttpResponse:
    """Show what would be made, and make it once it is confirmed. Opened again, the page shows what differs."""
    pool = get_object_or_404(Pool, slug=slug)
    cluster = cluster_of(pool.engine, pool=pool)
    if isinstance(cluster, Refused):
        return render(request, "operator/cluster_import.html", {"pool": pool, "refused": cluster.sentence})
    if request.method != "POST":
        return _page(request, ImportForm(pool, cluster))
    form = ImportForm(pool, cluster, request.POST)
    return answer(
        request,
        form,
        name="import",
        apply=lambda change_form: cluster_import(
            pool=pool,
            changes=form.changes,
            by=request.access,
            reason=change_form.cleaned_data["reason"],
            at=timezone.now(),
        ),
        done="The pool's servers are as the cluster says.",
        back=f"{reverse('operator_servers')}?pool={pool.slug}",
        page=lambda _: _page(request, form),
    )


def _page(request: AccessRequest, form: ImportForm) -> HttpResponse:
    context = {"pool": form.pool, "form": form, "cluster": form.cluster, "refused": form.refused}
    return render(request, "operator/cluster_import.html", context)


def _move(change: ServerChange) -> PageChange:
    what, owner = f"Server {change.name}", change.owner or "the operator"
    if change.cluster is None:
        flaw = "The cluster has no such server; it stays in the pool until an operator takes it out."
        return PageChange(what, _units(change.now), "the same", flaw)
    if change.now is None:
        return PageChange(what, "not there", f"{_units(change.cluster)}, of {owner}")
    return PageChange(what, _units(change.now), _units(change.cluster))


def _units(units: Units | None) -> str:
    return ", ".join(f"{number} {name}" for name, number in (units or {}).items())
