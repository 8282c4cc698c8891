// The planning form: sends it, shows how far the simulation has come, and what came of it.
"use strict";
(() => {
  const { EntryError, showError, table: lines, number, bounds } = bestarmForms;
  const form = document.getElementById("plan-form");
  const part = (name) => document.getElementById(`plan-${name}`);
  let stopping = null;

  const token = form.elements.token;
  token.value = bestarmToken.read();

  const ticked = (name) =>
    [...form.querySelectorAll(`[name=${name}]:checked:enabled`)].map((box) => box.value);

  // With several options per round, only some policies can be planned, and days are of rounds.
  const perDay = form.elements.per_day.labels[0].firstChild;
  const people = form.querySelector("[name=drift][value=people]");
  let inBlocks = false;
  const fit = () => {
    const before = inBlocks;
    inBlocks = Number(form.elements.block.value) > 1;
    for (const box of form.querySelectorAll("[data-single]")) box.disabled = inBlocks;
    part("singles").hidden = !inBlocks;
    perDay.textContent = inBlocks ? "Rounds per day " : "Outcomes per day ";
    if (inBlocks && !before) people.checked = true;
  };
  form.elements.block.addEventListener("input", fit);
  // Visitors ask for the lift, so that no lead is given beside them.
  const { gap, visitors } = form.elements;
  const ask = () => { gap.disabled = Boolean(visitors.value.trim()); };
  visitors.addEventListener("input", ask);
  fit(); // a browser may have kept what was typed
  ask();

  const options = (field) => {
    const { labels, features } = lines(field, "options");
    if ((features || labels).length < 2) throw new EntryError("Give at least two options, one per line.", field);
    return { ...(features ? { source: features } : {}), ...(labels ? { options: labels } : {}) };
  };

  const asked = () => {
    const body = options(form.elements.source);
    for (const name of ["delta", "visitors", "noise", "baseline", "per_day", "block", "runs", "seed"]) {
      const value = number(form.elements[name],
        { whole: ["visitors", "block", "runs", "seed"].includes(name) });
      if (value !== null) body[name] = value;
    }
    for (const name of ["gap", "base", "window"]) { // texts with units, which the server reads
      const text = form.elements[name].value.trim();
      if (text && !form.elements[name].disabled) body[name] = text;
    }
    const ends = bounds(form);
    if (ends !== null) body.bounds = ends;
    body.drift = ticked("drift");
    body.policies = ticked("policies");
    if (!body.drift.length) throw new EntryError("Tick at least one way the baseline may move.");
    if (!body.policies.length) throw new EntryError("Tick at least one policy.");
    return body;
  };

  const say = (words) => { part("status").textContent = words; };
  const fail = (words, field = null) => showError(form, part("error"), new EntryError(words, field));

  // The documents of an answer, one per line: pairs of a name and its data.
  async function* documents(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (text + value).split("\n");
      text = lines.pop();
      for (const line of lines) yield* Object.entries(JSON.parse(line));
    }
  }

  async function simulate() {
    const body = asked();
    stopping = new AbortController();
    working(true);
    const response = await bestarmPost("/api/v1/plan", token.value.trim(), body, stopping.signal);
    if (!response.ok) {
      const field = response.status === 401 || response.status === 403 ? "token" : (await response.clone().json().catch(() => ({}))).field;
      throw new EntryError(await bestarmWrong(response), field === "options" ? "source" : field);
    }
    bestarmToken.keep(token.value.trim());
    let words = [], curve = null;
    for await (const [name, data] of documents(response)) {
      if (name === "progress") {
        part("progress").max = data.total;
        part("progress").value = data.done;
        say(`${count(data.done)} of ${count(data.total)} runs`);
      } else if (name === "words") {
        words = data;
      } else if (name === "curve") {
        curve = data;
      } else if (name === "plan" || name === "lifts") {
        show(words, data.warnings);
        draw(curve, data.bounds);
        return;
      } else if (name === "error") {
        throw new Error(`${data.message} ${data.remedy}`.trim());
      }
    }
    throw new Error("The simulation ended abruptly.");
  }

  const working = (on) => {
    part("go").disabled = on;
    part("stop").hidden = part("progress").hidden = !on;
    if (on) {
      part("progress").value = 0;
      say("Starting a process for the simulation …");
      fail("");
    }
  };

  // What is shown is text: names are a user's.
  const made = (kind, text, parent, classes = "") => {
    const element = document.createElement(kind);
    element.textContent = text;
    if (classes) element.className = classes;
    parent.append(element);
    return element;
  };
  const count = (value) => Math.round(value).toLocaleString("en");

  // The plan in words: sentences and tables, below the warnings.
  function show(parts, warnings) {
    const words = part("words");
    words.replaceChildren();
    for (const text of warnings) made("p", text, words, "notice warning");
    for (const each of parts) {
      if (typeof each === "string") made("p", each, words);
      else table(each, words);
    }
    part("result").hidden = false;
    document.getElementById("forecast").focus();
  }

  // Outcomes over the lead: as simulated, and of a test of fixed size.
  function draw(curve, bounds) {
    part("curve").hidden = !curve;
    if (!curve) return;
    const rates = bounds && bounds[0] === 0 && bounds[1] === 1, x = curve.lead.map((each) => each * (rates ? 100 : 1));
    const line = (label, option, rank, y) => ({ label, option, rank, out: false, x, y, low: [], high: [] });
    const lines = [line("test of fixed size", 0, -2, curve.fixed), line("bestarm, 9 of 10 times", 1, 1, curve.high), line("bestarm, median", 0, 0, curve.median)];
    const most = Math.max(...lines.map(({ y }) => y[0]));
    bestarmDraw({ curve: { lines, levels: [], marks: [], suffix: " outcomes", x_name: rates ? "points" : "lead", y_range: [0, most] } });
  }

  function table({ title, rows: [headings, ...rows] }, parent) {
    if (title) made("p", title, parent, "verdict");
    const frame = made("div", "", parent, "scroll");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", title || headings.join(", "));
    const shown = made("table", "", frame);
    const head = made("tr", "", made("thead", "", shown));
    headings.forEach((text, at) => { made("th", text, head, at ? "figure" : "").scope = "col"; });
    const body = made("tbody", "", shown);
    for (const [name, ...texts] of rows) {
      const row = made("tr", "", body);
      made("th", name, row).scope = "row";
      for (const text of texts) made("td", text, row, "figure");
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await simulate();
      say("");
    } catch (error) {
      if (error.name === "AbortError") say("Stopped.");
      else { say(""); fail(error.message, error.field); }
    } finally {
      working(false);
    }
  });
  part("stop").addEventListener("click", () => stopping.abort());
})();
