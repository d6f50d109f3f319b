from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "scheduling"
    label = "scheduling"
    verbose_name = "Scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import scheduling.app.admin  # noqa: F401  Django looks for it in the root of the app alone
        from scheduling.market.settle.stuck import held_findings
        from tenants.ledger import audit

        audit.purposes.append(held_findings)
