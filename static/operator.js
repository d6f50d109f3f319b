// The operator's forms: what the server says against a change stands at its field, and goes when it is right.
(() => {
  "use strict";
  document.addEventListener("htmx:after:swap", () => {
    for (const form of document.querySelectorAll("form[data-change]")) {
      const effect = document.getElementById(form.dataset.change);
      if (!effect) continue;
      const faults = new Map([...effect.querySelectorAll("[data-fault]")].map((row) => [row.dataset.fault, row.textContent]));
      for (const place of form.querySelectorAll("[data-error-of]")) {
        const field = form.elements[place.dataset.errorOf], said = faults.get(place.dataset.errorOf) || "";
        if (place.textContent.trim() !== said) {
          place.textContent = "";
          if (said) {
            const line = document.createElement("p");
            line.className = "error";
            line.textContent = said;
            place.append(line);
          }
        }
        if (field instanceof Element) { if (said) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid"); }
      }
    }
  });
})();
