from django.http import HttpRequest, HttpResponse
from django.urls import path


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse("Bourse\n", content_type="text/plain")


urlpatterns = [path("", home, name="home")]
