// The list of experiments keeps itself up to date, and a form creates new ones.
"use strict";
(function () {
  const { EntryError, showError, entryName, table, number, bounds } = bestarmForms;
  const list = document.getElementById("list");
  let known = list.dataset.tag;
  async function refresh() {
    if (document.hidden) return;
    try {
      const answer = await fetch(`/list${location.search}`, {
        credentials: "same-origin",
        cache: "no-store", // the server says whether anything is new
        headers: { "If-None-Match": known },
      });
      if (!answer.ok) return; // 304: nothing is
      const { html } = await answer.json();
      known = answer.headers.get("ETag");
      const focused = list.contains(document.activeElement) && document.activeElement.getAttribute("href");
      list.innerHTML = html; // made by the server, which escapes what users typed
      localTimes(list);
      if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    } catch { /* the next one may work */ }
  }
  setInterval(refresh, 4000);

  document.querySelector('a[href="#create"]')?.addEventListener("click", () => {
    document.getElementById("create").open = true;
    document.getElementById("name").focus();
  });

  const form = document.getElementById("create-form");
  const wrong = document.getElementById("create-error");
  const go = document.getElementById("create-go");
  form.elements.token.value = bestarmToken.read();

  function further(text) {
    let read = {};
    try {
      if (text) read = JSON.parse(text);
    } catch {
      throw new EntryError("The further options are not JSON.", "policy_options");
    }
    if (read === null || typeof read !== "object" || Array.isArray(read)) {
      throw new EntryError('The further options must be names with values, like {"max_pulls": 100000}.', "policy_options");
    }
    return read;
  }

  // The control is one of the options, as far as they are typed.
  const { source, control, outcome } = form.elements;
  function listOptions() {
    let labels = [];
    try { labels = table(source, "options").labels || []; } catch { /* not finished */ }
    const chosen = control.value;
    control.replaceChildren(new Option("none", ""), ...labels.map((label) => new Option(label)));
    control.value = labels.includes(chosen) ? chosen : "";
  }
  source.addEventListener("input", listOptions);
  const showBounds = () => { document.getElementById("bounds").hidden = outcome.value === "yes"; };
  outcome.addEventListener("change", showBounds);
  listOptions(); // a browser may have kept what was typed
  showBounds();

  const add = document.getElementById("guardrail-add");
  add.addEventListener("click", () => {
    const row = document.querySelector("#guardrails template").content.firstElementChild.cloneNode(true);
    row.querySelector("button").addEventListener("click", () => { row.remove(); add.focus(); });
    add.parentElement.before(row);
    row.querySelector("input").focus();
  });

  // What each guardrail promises, by name.
  function guardrails() {
    const found = {};
    for (const row of document.querySelectorAll("#guardrails > .guardrail")) {
      const of = (name) => row.querySelector(`[name="${name}"]`);
      const name = of("guardrail").value.trim();
      if (!name) throw new EntryError("Give every guardrail a name, or remove it.", of("guardrail"));
      if (name in found) throw new EntryError(`There are two guardrails “${name}”.`, of("guardrail"));
      const read = ["worse_by", "lowest", "highest", "alpha"].map((each) => [of(each), number(of(each))]);
      const empty = read.find(([, value]) => value === null);
      if (empty) throw new EntryError(`Guardrail “${name}” lacks a number: ${entryName(empty[0])}.`, empty[0]);
      const [worse_by, lowest, highest, alpha] = read.map(([, value]) => value);
      found[name] = { bounds: [lowest, highest], worse_by, alpha, action: of("action").value, worse: of("worse").value };
      const ends = of("rail_window").value.trim(), otherwise = number(of("rail_otherwise"));
      if (ends) found[name].window = ends;
      if (ends || otherwise !== null) found[name].otherwise = otherwise ?? 0;
    }
    return found;
  }

  function body() {
    const options = table(source, "options");
    const made = { name: form.elements.name.value.trim(), policy: form.elements.policy.value };
    if (!made.name) throw new EntryError("Give the experiment a name.", "name");
    if (options.features) made.source = options.features;
    if (options.labels) made.options = options.labels;
    if (form.elements.target.value.trim()) {
      const target = table(form.elements.target, "the options to choose among");
      if (!target.features) throw new EntryError("The options to choose among need features as well as names.", "target");
      made.target = target.features;
      if (target.labels) made.target_labels = target.labels;
    }
    const about = form.elements.description.value.trim();
    if (about) made.description = about;
    for (const name of ["delta", "noise", "baseline"]) {
      const found = number(form.elements[name]);
      if (found !== null) made[name] = found;
    }
    const seed = number(form.elements.seed, { whole: true });
    if (seed !== null) made.seed = seed;
    const lease = number(form.elements.lease);
    if (lease !== null) made.lease = lease * 3600;
    const window = form.elements.window.value.trim();
    const otherwise = number(form.elements.otherwise);
    if (window) made.window = window;
    if (window || otherwise !== null) made.otherwise = otherwise ?? 0;
    if (form.elements.forecaster.checked) made.forecaster = "default";
    made.policy_options = further(form.elements.policy_options.value.trim());
    if (control.value) made.control = control.value;
    for (const name of ["tolerance", "precision"]) {
      const found = number(form.elements[name]);
      if (found !== null) made.policy_options[name] = found;
    }
    made.guardrails = guardrails();
    const ends = outcome.value === "yes" ? [0, 1] : bounds(form);
    if (ends !== null && made.policy === "anytime") made.bounds = ends;
    else if (ends !== null) {
      // Other policies go by the scales, which the bounds imply where they are not given.
      made.noise ??= (ends[1] - ends[0]) / 2;
      made.baseline ??= Math.max(Math.abs(ends[0]), Math.abs(ends[1]));
    }
    return made;
  }

  // Fields of the API that the form calls otherwise.
  const FIELDS = { options: "source", target_labels: "target", bounds: "low", reward: "low" };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    showError(form, wrong, new EntryError(""));
    go.disabled = true;
    try {
      const token = form.elements.token.value.trim();
      if (!token) throw new EntryError("Creating an experiment needs an access token (role: manage).", "token");
      const made = body();
      const answer = await bestarmPost("/api/v1/experiments", token, made);
      if (!answer.ok) {
        const field = answer.status === 401 || answer.status === 403 ? "token" : (await answer.clone().json().catch(() => ({}))).field;
        throw new EntryError(await bestarmWrong(answer), FIELDS[field] || field);
      }
      bestarmToken.keep(token);
      location.assign(`/experiments/${encodeURIComponent(made.name)}`);
    } catch (error) {
      showError(form, wrong, error instanceof EntryError ? error : new EntryError("The server cannot be reached."));
      go.disabled = false;
    }
  });
})();
