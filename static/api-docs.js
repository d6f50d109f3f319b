"use strict";
// The published schema, to click through. Calls from here use the reader's own session, so they carry its CSRF token.
const place = document.getElementById("interface");
const csrf = () => (document.cookie.match(/(?:^|; )bourse_csrf=([^;]*)/) || [])[1];
window.SwaggerUIBundle({
  url: place.dataset.schema + "?format=json",
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (new URL(request.url, location.href).origin === location.origin && csrf()) request.headers["X-CSRFToken"] = csrf();
    return request;
  },
});
