"""Django's page about an exception for developers, where DEBUG is on. Making it takes seconds."""

from django.utils.safestring import SafeString
from django.views.debug import ExceptionReporter

from tenants.common.failures import unavailable_of


class BriefReporter(ExceptionReporter):
    """Makes the page with every frame and variable only if the code may be at fault."""

    def get_traceback_html(self) -> SafeString:
        return SafeString() if unavailable_of(self.exc_value) else super().get_traceback_html()

    def get_traceback_text(self) -> SafeString:
        return SafeString() if unavailable_of(self.exc_value) else super().get_traceback_text()
