// What forms have in common: options typed as lines, and numbers, read the same way everywhere.
"use strict";
(function () {
  // What is wrong with an entry, in words for whoever made it, and the field that it is in.
  class EntryError extends Error {
    constructor(words, field = null) { super(words); this.field = field; }
  }

  // Shows what is wrong beside its field, if there is one.
  function showError(form, place, error) {
    const field = typeof error.field === "string" ? form.elements[error.field] : error.field;
    for (const each of form.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
    place.hidden = !error.message;
    place.textContent = error.message;
    if (!(field instanceof Element)) { form.querySelector(".actions:last-of-type").before(place); return; }
    for (let each = field.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    field.setAttribute("aria-invalid", "true");
    (field.closest("label") || field).after(place);
    field.focus();
  }

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
  const numeric = (text) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text));

  // Names alone (the features are null), or names with features; a first line that is not numbers
  // is a header.
  function table(field, what) {
    const fail = (words) => { throw new EntryError(words, field); };
    const text = field.value;
    let rows = text.split(/\r?\n/).filter((line) => line.trim()).map(cells);
    if (!rows.length) fail(`Give ${what}, one per line.`);
    if (rows.every((row) => row.length === 1) && !rows.every((row) => numeric(row[0]))) {
      return { labels: rows.map((row) => row[0]), features: null };
    }
    if (rows.length > 1 && rows[0].length > 1 && !rows[0].slice(1).some(numeric)) rows = rows.slice(1);
    const named = rows.some((row) => !numeric(row[0]));
    const width = rows[0].length;
    const features = rows.map((row, at) => {
      if (row.length !== width) fail(`Line ${at + 1} of ${what} has ${row.length} values, the first has ${width}.`);
      return (named ? row.slice(1) : row).map((cell) => {
        if (!numeric(cell)) fail(`“${cell}” in line ${at + 1} of ${what} is not a number.`);
        return Number(cell);
      });
    });
    return { labels: named ? rows.map((row) => row[0]) : null, features };
  }

  // What a field's own label calls it.
  const entryName = (field) => field.labels[0].firstChild.textContent.trim();

  // The number in a field, or null where there is none.
  function number(field, { whole = false } = {}) {
    const text = field.value.trim();
    if (!text) return null;
    const words = entryName(field);
    if (!numeric(text)) {
      throw new EntryError(`${words}: “${text}” is not a number` +
        (text.includes(",") ? "; write 2000, and 0.5 with a point." : "."), field);
    }
    const value = Number(text);
    if (whole && !Number.isSafeInteger(value)) {
      throw new EntryError(`${words}: “${text}” must be a whole number, of 15 digits at most.`, field);
    }
    return value;
  }

  // Both bounds, or null where there are none.
  function bounds(form) {
    const ends = [number(form.elements.low), number(form.elements.high)];
    if ((ends[0] === null) !== (ends[1] === null)) throw new EntryError("Give both bounds of outcomes, or none.", form.elements[ends[0] === null ? "low" : "high"]);
    return ends[0] === null ? null : ends;
  }

  window.bestarmForms = { EntryError, showError, entryName, table, number, bounds };
})();
