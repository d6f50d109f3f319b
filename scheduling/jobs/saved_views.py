"""Save and remove a person's views of the list of jobs. They change nothing but that person's page."""

from __future__ import annotations

from django.db import transaction

from scheduling.models.jobs import SavedView
from tenants.access import Access, Refused
from tenants.models import User
from tenants.names import is_blank
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

MOST = 20
LONGEST_NAME, LONGEST_QUERY = 60, 500
TOO_MANY = Refused("too_many_views", f"There are {MOST} saved views already; remove one first.")
BAD_NAME = Refused("bad_name", f"A view has a name of 1 to {LONGEST_NAME} characters that can be seen.")
BAD_QUERY = Refused("bad_query", "This filter is too long to be saved.")


@transaction.atomic
def view_save(*, name: str, query: str, by: Access) -> SavedView | Refused:
    """Save a view. It replaces a view that has this name already."""
    if by.tenant is None or by.user is None or not by.allows(Permission.JOBS_VIEW):
        return NOT_ALLOWED
    name = name.strip()
    if is_blank(name) or len(name) > LONGEST_NAME or not name.isprintable():
        return BAD_NAME
    if len(query) > LONGEST_QUERY:
        return BAD_QUERY
    with scope(by.tenant):
        User.objects.select_for_update(no_key=True).get(pk=by.user.pk)  # their views are counted one after the other
        mine = SavedView.objects.filter(person=by.user)
        if mine.exclude(name=name).count() >= MOST:
            return TOO_MANY
        saved, _ = SavedView.objects.update_or_create(
            tenant=by.tenant, person=by.user, name=name, defaults={"query": query}
        )
    return saved


def view_remove(*, view_id: int, by: Access) -> str | Refused:
    """Remove a view, and return the name that it had."""
    if by.tenant is None or by.user is None or not by.allows(Permission.JOBS_VIEW):
        return NOT_ALLOWED
    with scope(by.tenant):
        view = SavedView.objects.filter(pk=view_id, person=by.user).first()
        if view is None:
            return Refused("unknown_view", "There is no such view.")
        view.delete()
    return view.name
