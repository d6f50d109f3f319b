"""The app as the commands without a database see it: their modules, and no models."""

from django.apps import AppConfig


class OfflineConfig(AppConfig):
    """Finds the commands; loads no models, so that nothing asks for a database or the settings of one."""

    name = "scheduling"

    def import_models(self) -> None:
        """There are none; the registry wants to be told."""
        self.models = {}
