"""The page for developers, which Django makes out of an exception where DEBUG is on. It takes seconds."""

from django.utils.safestring import SafeString
from django.views.debug import ExceptionReporter

from tenants.failures import unavailable_of


class BriefReporter(ExceptionReporter):
    """The page for developers with every frame and variable is made where there is something to look for."""

    def get_traceback_html(self) -> SafeString:
        return SafeString() if unavailable_of(self.exc_value) else super().get_traceback_html()

    def get_traceback_text(self) -> SafeString:
        return SafeString() if unavailable_of(self.exc_value) else super().get_traceback_text()
