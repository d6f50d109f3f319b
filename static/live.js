// One socket for each page. It brings no rows: only the names of what moved, and a cursor. The page then asks for those parts.
(() => {
  "use strict";
  const box = document.getElementById("toasts");
  if (!box || !window.htmx) return;
  const root = document.documentElement, title = document.title;
  const LATE = 10_000, STALE = 15_000, MOST_WAIT = 30_000;
  let cursor = Number(box.dataset.cursor), failures = 0, heard = performance.now(), state = "", since = "";

  // ---- the words and the sign of the live state
  const time = () => new Date().toLocaleTimeString("en-GB", { timeZone: root.dataset.zone.replaceAll(" ", "_") });
  const words = { live: "Live", late: "Late", off: "Not live" };
  function say(next) {
    if (next === "live") { heard = performance.now(); since = time(); }
    for (const el of document.querySelectorAll("[data-live-state]")) {
      if (next === "live") { const at = el.querySelector("[data-live-time]"); if (at) at.textContent = since; }
      if (next && el.dataset.state !== next) { el.dataset.state = next; el.querySelector("[data-live-word]").textContent = words[next]; }
    }
    state = next;
  }
  function beat() { for (const el of document.querySelectorAll("[data-live-state]")) { el.classList.remove("beat"); void el.offsetWidth; el.classList.add("beat"); } }
  function stale(on) {
    const bar = document.getElementById("stale");
    if (!bar || bar.hidden === !on) return;
    bar.querySelector("[data-stale-since]").textContent = since;
    bar.hidden = !on;
    root.classList.toggle("is-stale", on);
  }
  function running() { const el = document.getElementById("own-jobs"); document.title = el && el.dataset.running !== "0" ? `(${el.dataset.running}) ${title}` : title; }

  // ---- parts: one request at a time for each, and once more if something moved meanwhile
  const busy = new Set(), again = new Set();
  const later = [429, 503]; // the server says when to come again; until then the page shows what it has
  function comeAgain(el) {
    if (!el.isConnected) return;
    if (el.matches("[data-live]")) ask(el); else if (el.id === "job-form") el.dispatchEvent(new Event("change", { bubbles: true }));
  }
  // A drop-down or a calendar that hangs open belongs to its field: were the part replaced, it would close under the reader's hand.
  const OPEN = CSS.supports("selector(:open)") ? ":is(select, input):open" : "select:focus";
  const waiting = new Set();
  function ask(el) {
    if (busy.has(el.id)) { again.add(el.id); return; }
    if (el.querySelector(OPEN)) { whenClosed(el); return; }
    busy.add(el.id);
    htmx.trigger(el, "live");
  }
  function whenClosed(el) {
    if (waiting.has(el.id)) return;
    waiting.add(el.id);
    setTimeout(() => { waiting.delete(el.id); if (el.isConnected) ask(el); }, 300);
  }
  function move(topics) {
    for (const el of document.querySelectorAll("[data-live]")) if (el.id && el.dataset.live.split(" ").some((topic) => topics.has(topic))) ask(el);
  }
  // What somebody ticked, chose or typed in a part and has not sent: the new part only knows what the server knows.
  const fields = (el) => [...el.querySelectorAll("input:not([type=hidden], [type=file]), select, textarea")];
  const keyOf = (field) => field.id || field.name;
  const TAB = "a[href], button, input, select, textarea, summary, [tabindex]";
  // What has the focus in a part, so that the same is found in the one that follows: by its id, or as the third, say, of those like it.
  const likeness = (at) => [at.tagName, at.name, at.type === "submit" ? at.value : "", at.getAttribute("href"), (at.closest("details[id]") || {}).id, at.matches("a, input, select, textarea") ? "" : at.getAttribute("aria-label") || at.className].join("\n");
  const alike = (el, kind) => [...el.querySelectorAll(TAB)].filter((at) => likeness(at) === kind);
  function focusOf(el) {
    const at = document.activeElement;
    if (!at || !el.contains(at)) return null;
    if (at === el || at.id) return { id: at.id };
    return placeOf(el, at);
  }
  function placeOf(el, at) {
    const kind = likeness(at);
    return { kind, place: alike(el, kind).indexOf(at) };
  }
  const isTick = (field) => field.type === "checkbox" || field.type === "radio";
  const kept = new WeakMap(), looks = new Map(); // by request, by part: several parts are replaced at once
  document.addEventListener("htmx:before:swap", (event) => {
    const { ctx } = event.detail, el = ctx.target;
    if (/^\s*<!doctype/i.test(ctx.text || "")) { // a page instead of a part: logged out, not allowed here any more, or a failure that passes
      event.preventDefault();
      if (ctx.response.status < 400 || ctx.response.status === 404) leave();
      return;
    }
    if (!(el instanceof Element) || !el.id) return;
    if (el.matches("[data-live]") && el.querySelector(OPEN)) { event.preventDefault(); again.add(el.id); return; } // opened meanwhile
    const before = { id: el.id, fields: new Map(fields(el).filter(window.isChanged).map((field) => [keyOf(field), isTick(field) ? field.checked : field.value])), focus: focusOf(el), open: [...el.querySelectorAll("details[open][id]")].map((d) => d.id), sentences: [...el.querySelectorAll("details.ask[open] > summary")].map((at) => placeOf(el, at)), scroll: [...el.querySelectorAll("[data-scroll-to]")].map((b) => b.scrollLeft) };
    kept.set(ctx, before);
    looks.set(el.id, before);
  });
  function show(before) {
    const el = document.getElementById(before.id);
    if (!el) return;
    for (const open of before.open) { const details = document.getElementById(open); if (details) details.open = true; }
    for (const { kind, place } of before.sentences) { const summary = alike(el, kind)[place]; if (summary) summary.parentElement.open = true; }
    for (const field of fields(el)) {
      if (field.disabled || !before.fields.has(keyOf(field))) continue;
      if (isTick(field)) field.checked = before.fields.get(keyOf(field)); else field.value = before.fields.get(keyOf(field));
    }
    before.fields.clear(); // once: from then on it is the reader's again
    const boxes = el.querySelectorAll("[data-scroll-to]");
    before.scroll.forEach((left, i) => { if (boxes[i]) boxes[i].scrollLeft = left; });
    focusAgain(el, before.focus);
  }
  function focusAgain(el, focus) {
    const lost = !document.activeElement || document.activeElement === document.body;
    if (!focus || !lost) return; // who has gone on to another field meanwhile stays there
    const same = focus.kind ? alike(el, focus.kind)[focus.place] : document.getElementById(focus.id);
    if (same) same.focus({ preventScroll: true });
    if (same && document.activeElement === same) return;
    if (el.tabIndex < 0) el.tabIndex = -1; // it is there no more: the next Tab goes on in this part, not at the top of the page
    el.focus({ preventScroll: true });
  }
  // Settling comes 20 ms after swapping, and takes attributes back: at once after each of them nobody sees a table close.
  for (const moment of ["htmx:before:settle", "htmx:after:settle"]) document.addEventListener(moment, (event) => { const before = looks.get(event.target.id); if (before) show(before); });
  function putBack(before) {
    show(before);
    looks.delete(before.id);
  }
  document.addEventListener("htmx:finally:request", (event) => {
    const { ctx } = event.detail, id = ctx.sourceElement && ctx.sourceElement.id, el = id && document.getElementById(id);
    if (kept.has(ctx)) putBack(kept.get(ctx));
    busy.delete(id);
    if (el) document.dispatchEvent(new CustomEvent("part", { detail: el }));
    say(state);
    running();
    if (again.delete(id) && el) ask(el);
    if (el && ctx.response && later.includes(ctx.response.status)) setTimeout(comeAgain, 1000 * (Number(ctx.response.headers.get("Retry-After")) || 5), el);
  });

  // ---- toasts: they leave after 8 s, and wait while somebody reads them. Their cursor moves by their own answers alone:
  // an event is told of as soon as it is there, and shown once all before it are, which may be some news later.
  let shown = cursor, asking = false, askAgain = false;
  async function toasts() {
    if (asking) { askAgain = true; return; }
    asking = true;
    try { await askToasts(); } finally { asking = false; }
    if (askAgain) { askAgain = false; toasts(); }
  }
  async function askToasts() {
    const answer = await fetch(`${box.dataset.toasts}&after=${shown}`, { headers: { "Bourse-Zone": root.dataset.zone.replaceAll(" ", "_") } });
    if (later.includes(answer.status)) setTimeout(toasts, 1000 * (Number(answer.headers.get("Retry-After")) || 5));
    if (!answer.ok || answer.redirected) return;
    const held = document.createElement("template");
    held.innerHTML = await answer.text();
    const next = held.content.querySelector("[data-toasts-after]");
    if (next) shown = Number(next.dataset.toastsAfter);
    if (next && "toastsMore" in next.dataset) setTimeout(toasts, 1000 + Math.random() * 1000);
    for (const toast of held.content.querySelectorAll("[data-toast]")) {
      box.append(toast);
      const leave = () => { if (toast.matches(":hover, :focus-within")) setTimeout(leave, 2000); else toast.remove(); };
      setTimeout(leave, 8000);
    }
    while (box.children.length > 3) box.firstElementChild.remove();
  }

  // ---- the socket
  let cut = false;
  const leave = () => document.dispatchEvent(new CustomEvent("gone"));
  document.addEventListener("here", () => { if (cut) { cut = false; connect(); } });
  function connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${box.dataset.liveSocket}?after=${cursor}`);
    window.liveSocket = socket;
    socket.onmessage = ({ data }) => {
      const news = JSON.parse(data);
      if (failures) document.dispatchEvent(new CustomEvent("here"));
      failures = 0;
      cursor = Math.max(cursor, news.cursor || 0);
      say("live"); stale(false);
      if (!news.topics.length) return;
      beat();
      const topics = new Set(news.topics);
      setTimeout(() => move(topics), Math.random() * 150); // many pages hear the same at once
      if (news.told && box.dataset.toasts) toasts();
    };
    socket.onclose = ({ code }) => {
      say("off");
      if (code === 4404) { cut = true; leave(); return; } // no longer allowed here: the page says so
      failures += 1;
      setTimeout(connect, Math.min(MOST_WAIT, 500 * 2 ** failures) * (0.5 + Math.random()));
    };
  }
  setInterval(() => {
    const silent = performance.now() - heard;
    if (state === "live" && silent > LATE) say("late");
    if (silent > STALE) stale(true);
  }, 1000);
  since = time();
  running();
  connect();
})();
