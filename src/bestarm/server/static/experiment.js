// The page of an experiment follows it: panels come from the server as HTML, charts as numbers.
"use strict";
(function () {
  const experiment = document.getElementById("experiment");
  const address = experiment.dataset.address;
  const live = document.getElementById("live");
  let revision = null, tag = "", state = experiment.dataset.state, charts = {};

  // --- following -----------------------------------------------------------------------------
  const APART = 1000, POLL = 3000, SETTLED = 4000, RARELY = 60000; // milliseconds
  let last = 0, waiting = null, settling = null, busy = false, again = false;

  function say(words, kind) {
    live.textContent = words;
    live.className = `live ${kind}`;
    badge();
  }

  // An experiment that is over is not live, though the page still follows its late outcomes.
  function badge() { live.hidden = !live.textContent || ["stopped", "finished"].includes(state); }

  function soon() {
    if (busy) { again = true; return; }
    if (waiting !== null || document.hidden) return;
    waiting = setTimeout(() => refresh(false), Math.max(0, last + APART - Date.now()));
  }

  async function refresh(anyhow) {
    clearTimeout(waiting);
    clearTimeout(settling);
    waiting = null;
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch(`/experiments/${address}/panels`, {
        credentials: "same-origin",
        headers: tag && !anyhow ? { "If-None-Match": tag } : {},
      });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        show(await answer.json());
      }
    } catch { say("Offline", "off"); }
    busy = false;
    // Health depends on the time as well: look once more when all is quiet, and now and then.
    settling = setTimeout(() => { if (!busy && !document.hidden) refresh(true); }, anyhow ? RARELY : SETTLED);
    if (again) { again = false; soon(); }
  }

  function follow() {
    let polling = null;
    const poll = () => { if (polling === null) polling = setInterval(soon, POLL); };
    if (!window.EventSource) { say("Polling", ""); poll(); return; }
    const source = new EventSource(`/api/v1/experiments/${address}/stream`);
    source.addEventListener("open", () => {
      say("Live", "on");
      clearInterval(polling);
      polling = null;
    });
    source.addEventListener("status", (event) => { if (event.lastEventId !== revision) soon(); });
    source.addEventListener("error", () => {
      say(source.readyState === EventSource.CLOSED ? "Polling" : "Reconnecting", "off");
      poll();
    });
    document.addEventListener("visibilitychange", soon);
    addEventListener("pagehide", () => source.close());
  }

  // --- panels --------------------------------------------------------------------------------
  const shown = {};

  function show(news) {
    revision = news.revision;
    for (const [name, html] of Object.entries(news.panels)) {
      if (shown[name] === html) continue;
      shown[name] = html;
      replace(document.getElementById(`panel-${name}`), html);
    }
    state = news.state;
    badge();
    buttons();
    charts = news.charts;
    plot();
  }

  // The server escapes what users typed. Plots, open details, focus and scrolling stay as they are.
  function replace(panel, html) {
    const plots = [...panel.querySelectorAll(".plot")];
    const open = new Map([...panel.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
    const scrolled = panel.querySelector(".log")?.scrollTop || 0;
    const focused = panel.contains(document.activeElement) ? document.activeElement : null;
    const mark = focused && (focused.id || focused.dataset.copy || focused.parentElement.id);
    const made = document.createElement("template");
    made.innerHTML = html;
    for (const each of plots) made.content.getElementById(each.id)?.replaceWith(each);
    for (const [id, was] of open) { const each = made.content.getElementById(id); if (each) each.open = was; }
    panel.replaceChildren(made.content);
    localTimes(panel);
    const log = panel.querySelector(".log");
    if (log) log.scrollTop = scrolled;
    if (mark) {
      const found = document.getElementById(mark) || panel.querySelector(`[data-copy="${CSS.escape(mark)}"]`);
      (found?.matches("details") ? found.querySelector("summary") : found)?.focus();
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  // --- charts --------------------------------------------------------------------------------
  // Plotly reads a little HTML in texts: what users typed is written so that it stays text.
  const COLOURS = Number(experiment.dataset.colours), REFERENCE = -2; // ranks of lines
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const brief = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
  const digits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
  const whole = new Intl.NumberFormat();

  function paint() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  function see(colour, share) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${share})`;
  }

  function traces(chart, of) {
    const made = [];
    const coloured = (each) => each.rank >= 0 && each.rank < COLOURS;
    const colour = (each) => of(coloured(each) ? `c${each.rank}` : each.rank === REFERENCE ? "soft" : "quiet");
    for (const each of chart.lines) {
      if (!each.low.length) continue;
      const there = each.x.map((_, i) => i).filter((i) => each.low[i] !== null && each.high[i] !== null);
      const edge = { x: there.map((i) => each.x[i]), mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      made.push({ ...edge, y: there.map((i) => each.low[i]) });
      made.push({ ...edge, y: there.map((i) => each.high[i]), fill: "tonexty", fillcolor: see(colour(each), 0.13) });
    }
    for (const each of chart.lines) {
      const at = each.y.length - 1;
      const dotted = chart.dots && each.rank !== REFERENCE && each.rank < COLOURS;
      const marks = each.y.map((_, i) => (each.out && i === at ? 9 : dotted ? 5 : 0));
      if (at === 0) marks[0] = 8;
      made.push({
        x: each.x, y: each.y, name: plain(brief(each.label)),
        mode: marks.some(Boolean) ? "lines+markers" : "lines",
        line: { color: colour(each), width: each.rank === 0 ? 2.6 : coloured(each) ? 2 : 1.2, dash: each.rank === REFERENCE ? "dash" : "solid" },
        marker: { color: colour(each), size: marks, line: { color: colour(each), width: marks.map((_, i) => (each.out && i === at ? 2.2 : 0)) }, opacity: marks.map((size) => (size ? 1 : 0)), symbol: marks.map((_, i) => (each.out && i === at ? "x-thin" : "circle")) },
        hoverinfo: "text",
        text: each.y.map((y, i) => (y === null ? "" : `<b>${plain(brief(each.label))}</b><br>${digits.format(y)}${
          coloured(each) && each.low.length && each.low[i] !== null && each.high[i] !== null ? ` (${digits.format(each.low[i])} to ${digits.format(each.high[i])})` : ""
        }<br>${chart.x_title} ${whole.format(Math.round(each.x[i]))}`)),
      });
    }
    return made;
  }

  function layout(chart, of) {
    const axis = { gridcolor: of("line"), linecolor: of("line"), zeroline: false, tickfont: { color: of("soft"), size: 12 }, automargin: true, fixedrange: true };
    const title = (text) => ({ text, font: { color: of("soft"), size: 12 }, standoff: 8 });
    return {
      margin: { l: 12, r: 12, t: 8, b: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", color: of("ink") },
      showlegend: false, hovermode: "closest", dragmode: false,
      hoverlabel: { bgcolor: of("card"), bordercolor: of("line"), font: { color: of("ink"), size: 13 }, align: "left" },
      xaxis: { ...axis, showgrid: false, title: title(chart.x_title), ...(chart.x_phases ? { dtick: 1, tickformat: "d" } : { nticks: 6, rangemode: "tozero" }) },
      yaxis: { ...axis, title: title(chart.y_title), range: chart.y_range, nticks: 6 },
      shapes: chart.levels.map(([y]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: of("soft"), width: 1.2, dash: "dash" } })),
      annotations: chart.levels.map(([y, words]) => ({ xref: "paper", x: 0, y, text: plain(words), showarrow: false, xanchor: "left", yanchor: "bottom", font: { color: of("soft"), size: 12 } })),
    };
  }

  function plot() {
    if (!window.Plotly) return;
    const of = paint();
    for (const place of document.querySelectorAll(".plot")) {
      const chart = charts[place.dataset.chart];
      if (!chart) continue;
      place.closest("figure").classList.add("drawn");
      Plotly.react(place, traces(chart, of), layout(chart, of), { displayModeBar: false, responsive: true });
    }
  }
  document.addEventListener("bestarm-theme", plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", plot);

  const script = document.createElement("script");
  script.src = experiment.dataset.plotly;
  script.addEventListener("load", plot);
  document.head.append(script);

  // --- managing ------------------------------------------------------------------------------
  const opener = document.getElementById("manage-show");
  const form = document.getElementById("manage-form");
  const field = document.getElementById("manage-token");
  const row = document.getElementById("manage-buttons");
  const said = document.getElementById("manage-said");
  let role = "";

  function tell(words) {
    said.textContent = words;
    said.className = "notice alarm";
    said.hidden = !words;
  }

  async function unlock(token, quietly) {
    tell("");
    try {
      const answer = await fetch("/role", { headers: { Authorization: `Bearer ${token}` } });
      if (!answer.ok) {
        bestarmToken.drop();
        if (!quietly) tell(answer.status === 401 ? "This access token is not valid." : await bestarmWrong(answer));
        return;
      }
      role = (await answer.json()).role;
      if (role !== "manage") {
        if (!quietly) tell(`This token has role ${role}, not manage.`);
        return;
      }
      bestarmToken.keep(token);
      form.hidden = opener.hidden = true;
      buttons();
      if (!quietly) row.querySelector("button")?.focus();
    } catch { if (!quietly) tell("The server cannot be reached."); }
  }

  opener.addEventListener("click", () => {
    form.hidden = !form.hidden;
    opener.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) field.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const token = field.value.trim();
    field.value = "";
    if (token) unlock(token, false);
  });

  function button(words, kind, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.className = kind;
    made.addEventListener("click", act);
    return made;
  }

  function buttons() {
    if (role !== "manage") return;
    const wanted = { running: ["pause", "stop"], paused: ["resume", "stop"] }[state] || [];
    const key = `${state}:${wanted}`;
    if (row.dataset.key === key) return;
    row.dataset.key = key;
    const made = {
      pause: () => button("Pause", "", () => change("pause")),
      resume: () => button("Resume", "main", () => change("resume")),
      stop: () => button("Stop…", "danger", ask),
    };
    const within = row.contains(document.activeElement);
    row.replaceChildren(...wanted.map((name) => made[name]()), button("Lock", "quiet", lock));
    row.hidden = false;
    if (within) row.querySelector("button").focus();
  }

  function lock() {
    role = "";
    bestarmToken.drop();
    row.replaceChildren();
    row.hidden = true;
    delete row.dataset.key;
    opener.hidden = false;
    opener.setAttribute("aria-expanded", "false");
    opener.focus();
  }

  function ask() {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "stop-title");
    const title = Object.assign(document.createElement("h2"), { id: "stop-title", textContent: "Stop the experiment for good?" });
    const words = Object.assign(document.createElement("p"), { className: "soft", textContent: "No more assignments are made, and outcomes that come later are not used. This cannot be undone." });
    const label = Object.assign(document.createElement("label"), { textContent: "Reason", htmlFor: "stop-why" });
    const why = Object.assign(document.createElement("input"), { id: "stop-why", maxLength: 1000 });
    const row = Object.assign(document.createElement("p"), { className: "actions" });
    row.append(
      button("Keep it running", "", () => dialog.close()),
      button("Stop the experiment", "danger", () => { dialog.close(); change("stop", { reason: why.value }); }),
    );
    dialog.append(title, words, label, why, row);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  async function change(what, body) {
    tell("");
    try {
      const answer = await fetch(`/api/v1/experiments/${address}/${what}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${bestarmToken.read()}`, ...(body ? { "Content-Type": "application/json" } : {}) },
        body: body ? JSON.stringify(body) : undefined,
      });
      if (!answer.ok) tell(await bestarmWrong(answer));
    } catch { tell("The server cannot be reached."); }
    soon();
  }

  refresh(false);
  follow();
  if (bestarmToken.read()) unlock(bestarmToken.read(), true);
})();
