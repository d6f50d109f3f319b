// Submit and jobs: a change fills the form in place, complaints stand at their fields, all rows are ticked at once.
(() => {
  "use strict";
  const form = document.getElementById("job-form");

  function put(name, value) {
    const field = form.elements[name];
    if (!field) return;
    field.value = value === null ? "" : String(value); // a group of radio buttons takes a value too
  }

  if (form) {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-fill]");
      if (!button) return;
      event.preventDefault();
      for (const [name, value] of Object.entries(JSON.parse(button.value))) put(name, value);
      form.dispatchEvent(new Event("change", { bubbles: true }));
    });
    // A quote that could not be asked for leaves the one before, which says so.
    const why = { 413: "what is sent now is too long. A file of a job has 64 kB at most", 429: "it is asked again in a moment", 503: "it is asked again in a moment" };
    const isOld = () => document.getElementById("quote-old");
    let latest = null;
    document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => { if (ctx.sourceElement === form) latest = ctx; });
    document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
      if (ctx.sourceElement !== form || ctx !== latest || (ctx.response && ctx.response.status < 400)) return;
      const place = isOld() || document.createElement("div"), line = document.createElement("p"), lamp = document.querySelector("#quote [data-state]");
      Object.assign(place, { id: "quote-old", className: "quote-lane" });
      Object.assign(line, { className: "verdict wait", role: "alert" });
      line.textContent = `This is not about what the form says now: ${(ctx.response && why[ctx.response.status]) || "no answer came"}.`;
      place.replaceChildren(line);
      document.querySelector("#quote .quote-answer").prepend(place);
      if (lamp) lamp.dataset.state = "off";
    });
    document.addEventListener("here", () => { if (isOld()) form.dispatchEvent(new Event("change", { bubbles: true })); });
    // A quote is asked for without the files that come along; it is told that there are some.
    form.addEventListener("change", ({ target }) => {
      if (target.name === "archive_file") form.elements.brings.value = target.files.length ? "1" : "";
    }, true);
    // What the quote complains about stands at its field once the reader has left it, and goes when it is right.
    document.addEventListener("htmx:after:swap", () => {
      const sign = document.querySelector("#quote .verdict svg");
      const faults = new Map([...document.querySelectorAll("#quote [data-fault]")].map((row) => [row.dataset.fault, row.textContent]));
      for (const place of form.querySelectorAll("[data-error-of]")) {
        const name = place.dataset.errorOf, field = form.elements[name], said = faults.get(name);
        if (said && field === document.activeElement) continue;
        place.textContent = "";
        if (said) {
          const line = document.createElement("p"), words = document.createElement("span");
          line.className = "error";
          words.textContent = said;
          if (sign) line.append(sign.cloneNode(true)); // as the server writes it
          line.append(words);
          place.append(line);
        }
        if (field instanceof Element) { if (said) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid"); }
      }
    });
  }

  // ---- jobs: one box for all rows that may be chosen; it is ticked while all of them are, of those that came meanwhile too
  const rows = () => [...document.querySelectorAll("input[name=job]:enabled")];
  const all = () => {
    const box = document.querySelector("[data-tick-all]");
    if (box) box.checked = rows().length > 0 && rows().every((row) => row.checked);
  };
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-tick-all]")) for (const row of rows()) row.checked = target.checked;
    else if (target.matches("input[name=job]")) all();
  });
  document.addEventListener("part", all);
})();
