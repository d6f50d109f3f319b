// Who is here: a log-in may end, or another one begin, while a form is open. What somebody typed outlives that.
(() => {
  "use strict";
  const root = document.documentElement, bar = document.getElementById("gone");
  const cookie = () => (document.cookie.match(/(?:^|; )bourse_csrf=([^;]*)/) || [])[1];
  let token = cookie();

  const typed = () => [...document.querySelectorAll("form[method=post]")].some((form) => [...form.elements].some(window.isChanged));

  // A page that is nobody's, or somebody else's, is loaded anew; one with something typed in it says so and stays.
  function gone() {
    if (!bar || !typed()) { location.reload(); return; }
    bar.hidden = false;
  }

  async function isSame() {
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      return answer.ok && page.documentElement.dataset.person === root.dataset.person;
    } catch { return false; } // no answer
  }

  // Each log-in has a token of its own: the forms of this page get the one of now, if the same person is here.
  async function goOn() {
    if (!(await isSame())) return false;
    token = cookie();
    for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = token;
    if (bar) bar.hidden = true;
    document.dispatchEvent(new CustomEvent("here"));
    return true;
  }
  const again = async () => { if (bar && !bar.hidden) await goOn(); };

  document.addEventListener("gone", gone);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) again(); });
  addEventListener("focus", again);
  if (bar) bar.querySelector("button").addEventListener("click", again);
  const sent = new WeakMap(); // with which token
  document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => sent.set(ctx, token));
  document.addEventListener("htmx:finally:request", async ({ detail: { ctx } }) => {
    if (!ctx.response || ctx.response.status !== 403) return;
    if (sent.get(ctx) !== token) document.dispatchEvent(new CustomEvent("here")); // of before: it is asked again
    else if (cookie() === token || !(await goOn())) gone();
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target, { submitter } = event;
    if (form.getAttribute("method") !== "post" || cookie() === token) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (await goOn()) form.requestSubmit(submitter); else gone();
  }, true);
})();
