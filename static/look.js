// Theme, countdown, now-line and charts. A chart is drawn from the table beside it: one source, two views.
(() => {
  "use strict";
  const root = document.documentElement;
  const token = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  // ---- theme
  for (const button of document.querySelectorAll("[data-theme-toggle]")) {
    const say = () => button.setAttribute("aria-label", dark() ? "Switch to light theme" : "Switch to dark theme");
    say();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* not kept */ }
      say();
      drawAll();
    });
  }

  // ---- countdown: the server says how many seconds are left, the page counts against its own monotonic clock from when it first saw the number
  const zone = (root.dataset.zone || "UTC").replaceAll(" ", "_");
  const seen = new WeakMap();
  const passed = (el) => { if (!seen.has(el)) seen.set(el, performance.now()); return Math.floor((performance.now() - seen.get(el)) / 1000); };
  const two = (n) => String(n).padStart(2, "0");
  const counted = (left) => `${left < 3600 ? "" : `${Math.floor(left / 3600)}:`}${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
  const tick = () => {
    // A page that hears nothing does not know whether a decision is late; it says what the server said.
    const live = document.querySelector('[data-live-state][data-state="live"]');
    let late = 0;
    for (const el of document.querySelectorAll("[data-seconds-left]")) {
      const said = Number(el.dataset.late || 0), over = passed(el) + said - Number(el.dataset.secondsLeft), due = live ? over : said, left = -over;
      const text = left > 0 ? counted(left) : due < 5 ? "deciding" : `${due} s late`;
      if (el.textContent !== text) el.textContent = text;
      if (el.dataset.late !== undefined) late = Math.max(late, due);
    }
    for (const el of document.querySelectorAll("[data-late-word]")) {
      el.hidden = late < 5;
      if (late >= 5) el.textContent = `decisions are ${late} s late`;
    }
    for (const line of document.querySelectorAll("[data-now-percent]")) {
      const x = `${Math.min(100, Number(line.dataset.nowPercent) + passed(line) * Number(line.dataset.perSecond))}%`;
      for (const name of ["x1", "x2", "x"]) if (line.hasAttribute(name)) line.setAttribute(name, x);
    }
  };
  tick();
  setInterval(tick, 1000);

  // ---- copy what a field shows
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const field = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(field.value ?? field.textContent); // the focus stays at the button: the reader goes on from there
        button.textContent = "Copied";
      } catch { // no clipboard without TLS, or without leave: what is selected is copied by the keyboard
        if (field.select) field.select(); else getSelection().selectAllChildren(field);
      }
    });
  }

  // ---- an open menu, or the sentence behind a "?", closes when the reader goes elsewhere, and by Escape
  const opened = () => document.querySelectorAll("details:is(.switch, .ask)[open]"); // parts of the page come anew: asked each time
  for (const event of ["click", "focusin"]) document.addEventListener(event, ({ target }) => { for (const menu of opened()) if (!menu.contains(target)) menu.open = false; });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") for (const menu of opened()) { menu.open = false; menu.querySelector("summary").focus(); } });

  // ---- a form was refused: the reader goes on at the first thing that it says against a field, or at the sentence, which may be far down the page
  function complaint() {
    const found = (what) => [...document.querySelectorAll(`main form ${what}`)].find((el) => !el.closest("[hidden]") && el.type !== "hidden");
    const said = found(".error"), group = said && said.closest("fieldset, .field");
    return found("[aria-invalid=true]") || (group && group.querySelector("input, select, textarea")) || said || found(".verdict.no[role=alert]");
  }
  addEventListener("load", () => { // by then the browser has scrolled to where the address points
    const at = complaint();
    if (!at || document.activeElement !== document.body) return;
    for (let folded = at.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    if (!at.matches("input, select, textarea")) at.tabIndex = -1;
    at.focus({ preventScroll: true });
    at.scrollIntoView({ block: "center" });
  });

  // ---- charts
  const charts = [];
  const column = (table, key) => [...table.querySelectorAll(`tbody [data-k="${key}"]`)].map((cell) => (cell.dataset.v === undefined || cell.dataset.v === "" ? null : Number(cell.dataset.v)));
  const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: zone });
  const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: zone });
  const utcDays = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }); // fairness is added up by days of UTC
  const clock = (s) => (s % 60 ? exact : hours).format(new Date(s * 1000));
  const isLong = (u) => u.scales.x.max - u.scales.x.min > 86400; // the same time of day comes twice, so days are named
  const ticks = (u, splits) => splits.map((s) => (isLong(u) && clock(s) === "00:00" ? days.format(new Date(s * 1000)) : clock(s)));
  const moment = (u, v) => (v == null ? "–" : isLong(u) ? `${days.format(new Date(v * 1000))}, ${clock(v)}` : clock(v));
  const axis = (extra) => ({ stroke: token("--ink-3"), font: `11px ${token("--font")}`, grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, ...extra });
  const step = () => uPlot.paths.stepped({ align: 1 });
  const vertical = (at, colour, dash) => (u) => {
    const x = Math.round(u.valToPos(at, "x", true)); const c = u.ctx;
    c.save(); c.strokeStyle = colour; c.lineWidth = devicePixelRatio; c.setLineDash(dash.map((d) => d * devicePixelRatio));
    c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke(); c.restore();
  };
  const kinds = {
    price(table, host) {
      const now = Number(host.dataset.now), edge = Number(host.dataset.edge);
      const keys = ["t", "worker", "ps"].slice(0, 1 + table.querySelectorAll("thead th[data-col]").length);
      const data = keys.map((k) => column(table, k));
      const words = new Map([...table.querySelectorAll("tbody td[data-v]:not([data-v=''])")].map((cell) => [Number(cell.dataset.v), cell.textContent]));
      const credits = (u, v) => (v == null ? "–" : words.get(v)); // as the table has it: the server rounds
      data[0].push(edge); for (const series of data.slice(1)) series.push(null); // the last price holds to the end of what is decided
      return {
        data,
        options: {
          height: 262,
          scales: { y: { range: (u, lo, hi) => [0, hi > 4 ? Math.ceil(hi * 1.1) : Math.max(hi * 1.15, 0.1)] } },
          axes: [axis({ values: ticks, space: 70, size: 30 }), axis({ size: 34, space: 38 })],
          series: [{ value: moment, label: "Slot" },
            { label: "Worker", stroke: token("--worker"), width: 2, paths: step(), points: { show: false }, value: credits },
            { label: "Parameter server", stroke: token("--ps"), width: 2, dash: [5, 3], paths: step(), points: { show: false }, value: credits }].slice(0, 1 + table.querySelectorAll("thead th[data-col]").length),
          hooks: { draw: [vertical(edge, token("--ink-3"), [3, 3]), vertical(now, token("--danger"), [])] },
        },
      };
    },
    loss(table, host) {
      const keys = ["t", "loss", "fit", "low", "high"].filter((k) => table.querySelector(`tbody [data-k="${k}"]`)), value = (u, v) => (v == null ? "–" : v.toFixed(3));
      const line = { loss: { label: "Loss", stroke: token("--own-fill"), width: 2 }, fit: { label: "Fitted", stroke: token("--ink-2"), width: 1.5, dash: [4, 3] }, low: { label: "Range from", stroke: "transparent" }, high: { label: "to", stroke: "transparent" } };
      return {
        data: keys.map((k) => column(table, k)),
        options: {
          height: 220,
          scales: { y: { range: (u, lo, hi) => [Math.floor(lo * 10) / 10, Math.max(Math.ceil(hi * 10), Math.floor(lo * 10) + 1) / 10] } },
          axes: [axis({ values: ticks, space: 64, size: 30 }), axis({ size: 38, space: 36, values: (u, s) => s.map((v) => v.toFixed(Math.abs(v * 10 - Math.round(v * 10)) > 1e-7 ? 2 : 1)) })],
          bands: keys.includes("high") ? [{ series: [4, 3], fill: `color-mix(in srgb, ${token("--own-fill")} 14%, transparent)` }] : [],
          series: [{ label: "Time", value: moment }, ...keys.slice(1).map((k) => ({ ...line[k], points: { show: false }, value }))],
          hooks: { draw: host.dataset.now ? [vertical(Number(host.dataset.now), token("--danger"), [])] : [] }, // an ended run has no "now"
        },
      };
    },
    share(table, host) {
      const [t, used, lent, idle] = ["t", "used", "lent", "idle"].map((k) => column(table, k));
      t.push(t.at(-1) + 900); // the running slot lasts to its end
      for (const series of [used, lent, idle]) series.push(series.at(-1));
      const sum = (...cs) => cs[0].map((_, i) => cs.reduce((s, c) => s + c[i], 0));
      const tint = (name, p) => `color-mix(in srgb, ${token(name)} ${p}%, transparent)`;
      const value = (source) => (u, v, si, i) => (i == null ? "–" : String(source[i]));
      return {
        data: [t, sum(used, lent, idle), sum(used, lent), used],
        options: {
          height: 230,
          scales: { y: { range: [0, 16] } },
          axes: [axis({ values: ticks, space: 64, size: 30 }), axis({ size: 30, incrs: [4] })],
          series: [{ label: "Slot", value: moment },
            { label: "Unsold", stroke: token("--control"), width: 1, fill: token("--surface"), paths: step(), points: { show: false }, value: value(idle) },
            { label: "Lent", stroke: token("--lend-fill"), width: 1.5, fill: tint("--lend-fill", 45), paths: step(), points: { show: false }, value: value(lent) },
            { label: "Used", stroke: token("--own-fill"), width: 1.5, fill: tint("--own-fill", 72), paths: step(), points: { show: false }, value: value(used) }],
        },
      };
    },
    trend(table) {
      const keys = table.dataset.keys.split(",");
      const shades = { mine: "--own-fill", worst: "--danger" };
      const heads = keys.map((k) => table.querySelector(`th[data-col="${k}"]`)), others = heads.filter((head) => !head.dataset.mark);
      const dashes = [undefined, [7, 3], [2, 3], [9, 3, 2, 3]];
      const line = (head) => { // marked lines have colours of their own, others one of five, none of them that of "mine", and a dash
        const mark = head.dataset.mark, place = others.indexOf(head);
        return { stroke: token(mark ? shades[mark] : `--t${(place % 5) + 2}`), width: mark ? 2.25 : 1.5, dash: mark ? (mark === "worst" ? [5, 3] : undefined) : dashes[place % 4] };
      };
      return {
        data: ["t", ...keys].map((k) => column(table, k)),
        options: {
          height: 240,
          padding: [8, 34, 0, 0],
          tzDate: (s) => uPlot.tzDate(new Date(s * 1e3), "UTC"), // ticks at midnight there, where the points are
          scales: { y: { range: (u, lo, hi) => [Math.min(0.8, Math.floor((lo ?? 1) * 5) / 5), Math.max(1.2, Math.ceil((hi ?? 1) * 5) / 5)] } },
          hooks: { draw: [(u) => {
            // names stand at the end of the lines, pushed apart where the lines meet, and none below the axis
            const k = devicePixelRatio, gap = 13 * k; let last = -Infinity, below = u.bbox.top + u.bbox.height + gap / 2;
            const ends = keys.map((key, i) => ({ key, last: u.data[i + 1].findLast((v) => v != null) })).filter(({ last }) => last != null).map(({ key, last }) => ({ key, y: u.valToPos(last, "y", true) })).sort((a, b) => a.y - b.y);
            u.ctx.save(); u.ctx.font = `600 ${11 * k}px ${token("--font")}`; u.ctx.textBaseline = "middle"; u.ctx.textAlign = "left";
            for (const end of ends) end.y = last = Math.max(end.y, last + gap);
            for (const end of ends.toReversed()) end.y = below = Math.min(end.y, below - gap);
            for (const end of ends) {
              const head = table.querySelector(`th[data-col="${end.key}"]`);
              u.ctx.fillStyle = line(head).stroke;
              u.ctx.fillText(head.dataset.short, u.bbox.left + u.bbox.width + 6 * k, end.y);
            }
            u.ctx.restore();
          }] },
          axes: [axis({ space: 60, size: 30, incrs: [1, 2, 4, 7, 14, 30].map((days) => days * 86400), values: (u, s) => s.map((v) => utcDays.format(new Date(v * 1000))) }), axis({ size: 38, values: (u, s) => s.map((v) => v.toFixed(2)) })],
          series: [{ label: "Day", value: (u, v) => (v == null ? "–" : utcDays.format(new Date(v * 1000))) },
            ...heads.map((head) => ({ label: head.textContent, ...line(head), points: { show: false }, value: (u, v) => (v == null ? "–" : v.toFixed(3)) }))],
        },
      };
    },
  };
  function draw(host) {
    const table = document.getElementById(host.dataset.table);
    const { data, options } = kinds[host.dataset.chart](table, host);
    // a price holds until the next slot begins: carry it over to the first slot without one
    for (const series of data.slice(1)) for (let i = series.length - 1; i > 0; i--) if (host.dataset.chart === "price" && series[i] === null && series[i - 1] !== null) series[i] = series[i - 1];
    const fmt = (ts) => uPlot.tzDate(new Date(ts * 1e3), zone);
    let settle = () => {};
    const plot = new uPlot({ width: host.clientWidth, tzDate: fmt, padding: [8, 28, 0, 0], cursor: { points: { size: 7 }, drag: { x: true, y: false } }, legend: { live: true }, ...options }, data, host);
    // without a pointer the legend reads the newest value
    const rest = Number(host.dataset.now || data[0].at(-1));
    const at = data[0].reduce((best, t, i) => (t <= rest ? i : best), 0);
    settle = () => plot.setLegend({ idx: at }, false);
    queueMicrotask(() => queueMicrotask(settle)); // after the plot's own first commit
    plot.over.addEventListener("mouseleave", () => requestAnimationFrame(settle));
    return plot;
  }
  // What a reader zoomed into, by table: it stays while the chart is drawn again, as long as any of it is there.
  const zooms = new Map();
  function keepZoom({ host, plot }) {
    const { min, max } = plot.scales.x, all = plot.data[0];
    if (min == null) return;
    if (min > all[0] || max < all.at(-1)) zooms.set(host.dataset.table, { min, max }); else zooms.delete(host.dataset.table);
  }
  function begin(host) {
    const plot = draw(host), zoom = zooms.get(host.dataset.table), all = plot.data[0];
    if (zoom && zoom.min < all.at(-1) && zoom.max > all[0]) plot.setScale("x", zoom);
    charts.push({ host, plot });
  }
  function end(chart) {
    keepZoom(chart);
    chart.plot.destroy();
  }
  function drawAll() {
    for (const chart of charts) end(chart);
    charts.length = 0;
    for (const host of document.querySelectorAll(".plot")) begin(host);
  }
  if (window.uPlot) {
    drawAll();
    let wait;
    addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => { for (const { host, plot } of charts) plot.setSize({ width: host.clientWidth, height: plot.height }); }, 80); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  }

  // ---- a part is written in the zone of its page, which the foot names: another page may have told the server another zone meanwhile
  document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => { ctx.request.headers["Bourse-Zone"] = zone; });

  // ---- a part of the page was replaced: its charts are drawn again, and those that went are let go
  const isDrawn = (host) => charts.some((chart) => chart.host === host);
  function redraw(part) {
    for (let i = charts.length - 1; i >= 0; i--) if (!charts[i].host.isConnected) end(charts.splice(i, 1)[0]);
    if (window.uPlot) for (const host of part.querySelectorAll(".plot")) if (!isDrawn(host)) begin(host);
  }
  // Before it settles, which comes later: nobody sees a frame without a line.
  document.addEventListener("htmx:before:settle", ({ target }) => { if (target instanceof Element) redraw(target); });
  document.addEventListener("part", ({ detail: part }) => { tick(); redraw(part); });

  // ---- a scrolled chart opens at "now", not at its left edge
  for (const box of document.querySelectorAll("[data-scroll-to]")) box.scrollLeft = (box.scrollWidth * Number(box.dataset.scrollTo)) / 100 - box.clientWidth / 3;
})();
