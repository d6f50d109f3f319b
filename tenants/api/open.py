"""Addresses that are open to everybody: they show nobody's data, and must answer when log-ins cannot be looked up."""

from __future__ import annotations

from tenants.api.listing import parameters_read
from tenants.api.views import ApiView


class OpenView(ApiView):
    """Neither asks who calls nor counts how often."""

    authentication_classes = ()

    def _gate(self) -> None:
        self.operation = self._handler().operation  # type: ignore[attr-defined]
        self.parameters = parameters_read(self.request, self.operation.filters, self.operation.parameters)
        self.form = self._form()
