// The list of trials keeps itself up to date, and a form makes new ones.
"use strict";
(function () {
  const list = document.getElementById("list");
  async function refresh() {
    if (document.hidden) return;
    try {
      const answer = await fetch("/list", { credentials: "same-origin" });
      if (!answer.ok) return;
      const { html } = await answer.json();
      if (html === list.dataset.html) return;
      list.dataset.html = html;
      const focused = list.contains(document.activeElement) && document.activeElement.getAttribute("href");
      list.innerHTML = html; // made by the server, which escapes what users typed
      localTimes(list);
      if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    } catch { /* the next one may work */ }
  }
  setInterval(refresh, 4000);

  const form = document.getElementById("create-form");
  const wrong = document.getElementById("create-error");
  const go = document.getElementById("create-go");
  form.elements.token.value = bestarmToken.read();

  class Said extends Error {}

  // A line of comma-separated values; quotes hold commas.
  function cells(line) {
    const found = [];
    let cell = "", quoted = false, was = false;
    for (let i = 0; i < line.length; i++) {
      const c = line[i];
      if (quoted && c === '"' && line[i + 1] === '"') { cell += '"'; i++; }
      else if (c === '"' && (quoted || !cell.trim())) { quoted = !quoted; was = true; if (quoted) cell = ""; }
      else if (c === "," && !quoted) { found.push(was ? cell : cell.trim()); cell = ""; was = false; }
      else if (!(was && !quoted)) cell += c;
    }
    found.push(was ? cell : cell.trim());
    return found;
  }
  const numeric = (text) => text !== "" && Number.isFinite(Number(text));

  // Names alone, or names with features; a first line that is not numbers is a header.
  function table(text, what) {
    let rows = text.split(/\r?\n/).filter((line) => line.trim()).map(cells);
    if (!rows.length) throw new Said(`Give ${what}, one a line.`);
    if (rows.every((row) => row.length === 1) && !rows.every((row) => numeric(row[0]))) {
      const labels = rows.map((row) => row[0]);
      return { labels, features: labels.map((_, i) => labels.map((_, j) => (i === j ? 1 : 0))) };
    }
    if (rows.length > 1 && rows[0].length > 1 && !rows[0].slice(1).some(numeric)) rows = rows.slice(1);
    const named = rows.some((row) => !numeric(row[0]));
    const width = rows[0].length;
    const features = rows.map((row, at) => {
      if (row.length !== width) throw new Said(`Line ${at + 1} of ${what} has ${row.length} values, the first has ${width}.`);
      return (named ? row.slice(1) : row).map((cell) => {
        if (!numeric(cell)) throw new Said(`“${cell}” in line ${at + 1} of ${what} is not a number.`);
        return Number(cell);
      });
    });
    return { labels: named ? rows.map((row) => row[0]) : null, features };
  }

  function value(name, words) {
    const text = form.elements[name].value.trim();
    if (!text) return null;
    if (!numeric(text)) throw new Said(`${words} must be a number; got “${text}”.`);
    return Number(text);
  }

  function body() {
    const source = table(form.elements.source.value, "options");
    const made = { name: form.elements.name.value.trim(), source: source.features, policy: form.elements.policy.value };
    if (!made.name) throw new Said("Give the trial a name.");
    if (source.labels) made.source_labels = source.labels;
    if (form.elements.target.value.trim()) {
      const target = table(form.elements.target.value, "the options to choose among");
      made.target = target.features;
      if (target.labels) made.target_labels = target.labels;
    }
    const about = form.elements.description.value.trim();
    if (about) made.description = about;
    for (const [name, words] of [["delta", "δ"], ["noise", "The noise"], ["baseline", "The baseline"], ["seed", "The seed"]]) {
      const found = value(name, words);
      if (found !== null) made[name] = found;
    }
    const lease = value("lease", "The time an outcome may take");
    if (lease !== null) made.lease = lease * 3600;
    const options = form.elements.options.value.trim();
    try {
      made.options = options ? JSON.parse(options) : {};
    } catch {
      throw new Said("The further options are not JSON.");
    }
    const low = value("low", "The lowest outcome"), high = value("high", "The highest outcome");
    if ((low === null) !== (high === null)) throw new Said("Give both bounds of outcomes, or none.");
    // Only the anytime policy rests on bounds; others go by the scales.
    if (low !== null && made.policy === "anytime") made.options.bounds = [low, high];
    return made;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.hidden = true;
    go.disabled = true;
    try {
      const token = form.elements.token.value.trim();
      if (!token) throw new Said("Creating a trial needs a manage token.");
      const made = body();
      const answer = await fetch("/api/v1/experiments", {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: JSON.stringify(made),
      });
      if (!answer.ok) throw new Said(await bestarmWrong(answer));
      bestarmToken.keep(token);
      location.assign(`/experiments/${encodeURIComponent(made.name)}`);
    } catch (error) {
      wrong.textContent = error instanceof Said ? error.message : "The server cannot be reached.";
      wrong.hidden = false;
      go.disabled = false;
    }
  });
})();
