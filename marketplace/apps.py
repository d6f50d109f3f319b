from django.apps import AppConfig


class MarketplaceConfig(AppConfig):
    name = "marketplace"
    verbose_name = "Marketplace"

    def ready(self) -> None:
        # `@shared_task` binds to whichever application exists when a task is first sent.
        from marketplace import celery, checks  # noqa: F401
