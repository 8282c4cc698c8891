// The page of an experiment follows it: panels come from the server as HTML, charts as numbers.
"use strict";
(function () {
  const experiment = document.getElementById("experiment");
  const address = experiment.dataset.address;
  const live = document.getElementById("live");
  let tag = "", state = experiment.dataset.state, archived = false, charts = {};

  // --- following -----------------------------------------------------------------------------
  const POLL = 2000, SETTLED = 4000, RARELY = 60000; // milliseconds
  let due = Infinity, busy = false, again = false;

  function say(words, kind) {
    live.textContent = words;
    live.className = `live ${kind}`;
    badge();
  }

  // An experiment that is over is not live, though the page still follows its late outcomes.
  function badge() { live.hidden = !live.textContent || ["stopped", "finished"].includes(state); }

  // Asks what is new. Health depends on the time as well: look at everything once more when all is
  // quiet, and now and then.
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    const anyhow = Date.now() >= due;
    try {
      const answer = await fetch(`/experiments/${address}/panels`, {
        credentials: "same-origin",
        headers: tag && !anyhow ? { "If-None-Match": tag } : {},
      });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        due = Date.now() + (anyhow ? RARELY : SETTLED);
        show(await answer.json());
      }
      if (answer.ok || answer.status === 304) say("Live", "on");
      else say("Offline", "off");
    } catch { say("Offline", "off"); }
    busy = false;
    if (again) { again = false; refresh(); }
  }

  function follow() {
    const look = () => { if (!document.hidden) refresh(); };
    setInterval(look, POLL);
    document.addEventListener("visibilitychange", look);
    refresh();
  }

  // --- panels --------------------------------------------------------------------------------
  const shown = {};

  function show(news) {
    for (const [name, html] of Object.entries(news.panels)) {
      const panel = document.getElementById(`panel-${name}`);
      if (!panel) { location.reload(); return; } // it is not new any more
      if (shown[name] === html) continue;
      shown[name] = html;
      replace(panel, html);
    }
    ({ state, archived } = news);
    document.getElementById("about").textContent = news.description;
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
    const view = panel.querySelector("[name=view]:checked")?.id;
    if (view && made.content.getElementById(view)) made.content.getElementById(view).checked = true;
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
  function plot() { bestarmDraw(charts); }

  // --- managing ------------------------------------------------------------------------------
  const opener = document.getElementById("manage-show");
  const form = document.getElementById("manage-form");
  const field = document.getElementById("manage-token");
  const row = document.getElementById("manage-buttons");
  const message = document.getElementById("manage-message");
  let role = "";

  function tell(words) {
    message.textContent = words;
    message.className = "notice alarm";
    message.hidden = !words;
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
    const more = experiment.dataset.changes ? ["add", "retire", "stop"] : ["stop"];
    const wanted = { running: ["pause", ...more], paused: ["resume", ...more] }[state] || [];
    wanted.push("describe", archived ? "restore" : "archive");
    const key = `${state}:${wanted}`;
    if (row.dataset.key === key) return;
    row.dataset.key = key;
    const made = {
      pause: () => button("Pause", "", () => change("pause")),
      resume: () => button("Resume", "main", () => change("resume")),
      add: () => button("Add option…", "", askToAdd),
      retire: () => button("Retire option…", "danger", askToRetire),
      stop: () => button("Stop…", "danger", askToStop),
      describe: () => button("Describe…", "", askToDescribe),
      archive: () => button("Archive…", "", askToArchive),
      restore: () => button("Show in lists again", "", () => change("?undo=true", undefined, "DELETE")),
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

  // A dialog with a title, an explanation, labelled fields by name, and two buttons.
  function ask({ title, words, fields, leave, go, kind }, act) {
    const dialog = document.createElement("dialog");
    const make = (tag, given) => Object.assign(document.createElement(tag), given);
    dialog.setAttribute("aria-labelledby", "ask-title");
    const form = make("form", { method: "dialog" });
    form.append(make("h2", { id: "ask-title", textContent: title }), make("p", { className: "soft", textContent: words }));
    for (const [name, [label, control]] of Object.entries(fields)) {
      form.append(make("label", { textContent: label, htmlFor: `ask-${name}` }), Object.assign(control, { id: `ask-${name}`, name }));
    }
    const row = make("p", { className: "actions" });
    row.append(button(leave, "", () => dialog.close()), make("button", { type: "submit", className: kind, textContent: go }));
    form.append(row);
    form.addEventListener("submit", () => act(Object.fromEntries(new FormData(form))));
    dialog.append(form);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function text(given) { return Object.assign(document.createElement("input"), { maxLength: 1000, ...given }); }

  function askToStop() {
    ask({
      title: "Stop the experiment for good?",
      words: "Outcomes that come later are not used. Whoever asks from then on gets the option that was shown to be the best, or else the control, or the leader where there is none. This cannot be undone.",
      fields: { why: ["Reason", text()] },
      leave: "Keep it running", go: "Stop the experiment", kind: "danger",
    }, ({ why }) => change("stop", { reason: why }));
  }

  function askToArchive() {
    ask({
      title: "Archive the experiment?",
      words: `Lists leave it out; it goes on as it is, and can be shown again here. Whoever runs the server deletes it for good with: bestarm experiment delete ${decodeURIComponent(address)}`,
      fields: {}, leave: "Keep it in lists", go: "Archive it", kind: "main",
    }, () => change("", undefined, "DELETE"));
  }

  function askToDescribe() {
    const about = Object.assign(document.createElement("textarea"), { maxLength: 10000, rows: 3 });
    about.value = document.getElementById("about").textContent;
    ask({
      title: "What is the experiment about?",
      words: "The log keeps what it was before.",
      fields: { description: ["Description", about] }, leave: "Leave it", go: "Save", kind: "main",
    }, (given) => change("describe", given));
  }

  function askToRetire() {
    const options = document.createElement("select");
    for (const name of document.querySelectorAll(".board tr[data-target]:not(.is-retired, .is-control) .name")) {
      options.add(new Option(name.textContent));
    }
    ask({
      title: "Retire an option for good?",
      words: "Nothing more is drawn of it. Outcomes of its assignments still count. This cannot be undone.",
      fields: { option: ["Option", options], reason: ["Reason", text({ required: true })] },
      leave: "Keep all", go: "Retire it", kind: "danger",
    }, (given) => change("retire", given));
  }

  function askToAdd() {
    ask({
      title: "Add an option",
      words: "It is drawn from now on. Leave the features out unless the other options have some.",
      fields: { option: ["Name", text({ required: true, maxLength: 200 })], features: ["Features", text({ placeholder: "none" })] },
      leave: "Cancel", go: "Add it", kind: "main",
    }, ({ option, features }) => {
      const numbers = features.split(/[\s,;]+/).filter(Boolean).map(Number);
      if (numbers.some(Number.isNaN)) tell("Features are numbers, with commas between them.");
      else change("add", numbers.length ? { option, features: numbers } : { option });
    });
  }

  async function change(what, body, method = "POST") {
    tell("");
    const path = `/api/v1/experiments/${address}${method === "POST" ? "/" : ""}${what}`;
    try {
      const answer = await bestarmPost(path, bestarmToken.read(), body, undefined, method);
      if (!answer.ok) tell(await bestarmWrong(answer));
    } catch { tell("The server cannot be reached."); }
    refresh();
  }

  follow();
  if (bestarmToken.read()) unlock(bestarmToken.read(), true);
})();
