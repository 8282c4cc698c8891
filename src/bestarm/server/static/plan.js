// The planning form: sends it, shows how far the simulation has come, and what came of it.
"use strict";
(() => {
  const { EntryError, table: lines, number, bounds } = bestarmForms;
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

  const options = (text) => {
    const { labels, features } = lines(text, "options");
    if ((features || labels).length < 2) throw new EntryError("Give at least two options, one per line.");
    return { ...(features ? { source: features } : {}), ...(labels ? { options: labels } : {}) };
  };

  const asked = () => {
    const body = options(form.elements.source.value);
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
  const fail = (words) => {
    part("error").textContent = words;
    part("error").hidden = !words;
  };

  // Events of a stream: pairs of a name and its data.
  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const field = (name) => lines.filter((line) => line.startsWith(`${name}: `))
          .map((line) => line.slice(name.length + 2)).join("\n");
        if (field("data")) yield [field("event"), JSON.parse(field("data"))];
      }
    }
  }

  async function simulate() {
    const body = asked();
    stopping = new AbortController();
    working(true);
    const response = await fetch("/api/v1/plan", {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Authorization: `Bearer ${token.value.trim()}`,
      },
      body: JSON.stringify(body),
      signal: stopping.signal,
    });
    if (!response.ok) throw new Error(await bestarmWrong(response));
    bestarmToken.keep(token.value.trim());
    for await (const [name, data] of events(response)) {
      if (name === "estimate") {
        const words = data.words + (data.seconds > data.limit
          ? `. The server stops after ${count(data.limit)} seconds and shows what it has.` : "");
        part("estimate").textContent = `Estimated time: ${words}`;
      } else if (name === "progress") {
        part("progress").max = data.total;
        part("progress").value = data.done;
        say(`${count(data.done)} of ${count(data.total)} runs`);
      } else if (name === "plan") {
        show(data);
        return;
      } else if (name === "lifts") {
        showLifts(data);
        return;
      } else if (name === "error") {
        throw new Error(`${data.message} ${data.remedy}`.trim());
      }
    }
    throw new Error("The simulation ended abruptly.");
  }

  const working = (on) => {
    part("go").disabled = on;
    part("stop").hidden = part("progress").hidden = part("estimate").hidden = !on;
    if (on) {
      part("progress").value = 0;
      say("Starting …");
      part("estimate").textContent = "Estimating the time …";
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
  const span = (seconds) => {
    for (const [unit, name] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]) {
      const value = rough(seconds / unit);
      if (seconds >= unit || unit === 1) return `${value} ${name}${value === "1" ? "" : "s"}`;
    }
  };
  const days = (value) => (value >= 10 ? count(value) : value.toFixed(1));
  const ratio = (value, [low, high]) => `${value.toFixed(2)} (${low.toFixed(2)} – ${high.toFixed(2)})`;
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const MOVES = {
    none: (s) => `the baseline stays at ${rough(s.baseline)}`,
    sine: (s, unit) => `the baseline is a wave of ±${rough(s.size)} about ${rough(s.baseline)} every ` +
      `${count(s.period)} ${unit}`,
    walk: (s, unit) => `the baseline walks within ±${rough(s.size)} of ${rough(s.baseline)}, some ` +
      `${rough(s.size)} in ${count(s.period)} ${unit}`,
    switches: (s, unit) => `the baseline jumps between ${rough(s.baseline - s.size)} and ` +
      `${rough(s.baseline + s.size)}, every ${count(s.period)} ${unit} or so`,
    people: (s) => `every round has a baseline of its own, within ±${rough(s.size)} of ` +
      `${rough(s.baseline)}`,
  };
  const lies = (s) => (s.baseline === s.level ? "" : `, and means lie about ${rough(s.level)}`);
  const rough = (value) => String(Number(value.toPrecision(4)));
  const rough3 = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 20 });
  const share = (value) => `${rough3(100 * value)} %`;

  function show(plan) {
    const words = part("words");
    const unit = plan.block > 1 ? "rounds" : "outcomes";
    words.replaceChildren();
    for (const text of plan.warnings) made("p", text, words, "notice warning");
    if (plan.block > 1) {
      made("p", `A round is one person, prompt or plate; with ×${plan.block} it tries ` +
        `${plan.block} options. Count rounds where people are what it costs, and outcomes where ` +
        "every judgement is paid for. Ranges and days are of rounds.", words);
    }
    if (plan.window) {
      made("p", `A window of ${span(plan.window)} at ${rough(plan.per_day)} outcomes per day: ` +
        `${count(plan.delay)} are always under way. Days include that.`, words);
    }
    for (const scenario of plan.scenarios) {
      const forecasts = plan.forecasts.filter((each) => each.scenario === scenario.scenario);
      if (!forecasts.length) continue;
      made("p", `“${scenario.best}” leads the next one by ${rough(scenario.gap)}; ` +
        `${scenario.bounded ? "outcomes are at one bound or the other"
          : `the noise is ${rough(scenario.noise)}`}; ${MOVES[scenario.drift](scenario, unit)}` +
        `${lies(scenario)}.`, words);
      words.append(table(plan, forecasts));
      for (const each of forecasts.filter((other) => other.days?.waiting > 0)) {
        made("p", `${each.policy} assigns nothing on ${each.capped ? "at least " : ""}` +
          `${days(each.days.waiting)} of its days, on average: it waits for the last outcomes of ` +
          "each phase.", words);
      }
      for (const saving of plan.savings.filter((each) => each.scenario === scenario.scenario)) {
        made("p", `With ×${plan.block}, ${saving.policy} takes ` +
          `${ratio(saving.rounds, saving.rounds_interval)} times the rounds and ` +
          `${ratio(saving.pulls, saving.pulls_interval)} times the outcomes of one option per ` +
          "round (means, 95 %).", words);
      }
      made("p", "No rule that is right with probability " +
        `${rough(1 - plan.delta)}, ${plan.drifts ? "whatever the baseline does" : "where there is no baseline"}, takes fewer than ` +
        `${scenario.bounded ? "about " : ""}${count(scenario.lower_bound)} outcomes on average.`,
      words, "soft");
    }
    const experiments = plan.runs === 1 ? "experiment" : "experiments";
    made("p", `From ${count(plan.runs)} simulated ${experiments} of each policy, with seed ${plan.seed}. ` +
      `A forecast holds if its assumptions do; ${unit} grow with 1/gap².`, words, "soft");
    part("result").hidden = false;
    document.getElementById("forecast").focus();
  }

  function grid(label, titles) {
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", label);
    const shown = made("table", "", frame);
    const head = made("tr", "", made("thead", "", shown));
    titles.forEach((title, at) => { made("th", title, head, at ? "figure" : "").scope = "col"; });
    return { frame, body: made("tbody", "", shown) };
  }

  // Which lifts so many visitors find: the sentence, the smallest lift per probability, the curve.
  function showLifts(found) {
    const words = part("words");
    words.replaceChildren();
    for (const text of found.warnings) made("p", text, words, "notice warning");
    const rates = found.bounds !== null && found.bounds[0] === 0 && found.bounds[1] === 1;
    const mean = (value) => (rates ? share(value) : rough3(value));
    const change = (lift) => (found.base === null ? "" : ` (${mean(found.base)} → ${mean(found.base + lift)})`);
    const size = (lift, relative) => (lift === null ? "…" : relative === null ? rough3(lift) : `+${share(relative)}`);
    const noun = found.base === null ? "lead" : "lift";
    const many = `${count(found.visitors)} ${found.block > 1 ? "rounds" : "visitors"}`;
    for (const curve of found.curves) {
      const usual = curve.lifts.find((each) => each.power === 0.8);
      const most = curve.points[curve.points.length - 1];
      made("p", usual.lift === null
        ? `With ${many} no ${noun} up to ${size(most.lift, most.relative)} is found with probability 80 %.`
        : `With ${many} a ${noun} of ${size(usual.lift, usual.relative)}${change(usual.lift)} is found with probability 80 %.`,
      words, "verdict");
      made("p", `${curve.policy}; ${MOVES[curve.world.drift](curve.world, found.block > 1 ? "rounds" : "visitors")}` +
        `${lies(curve.world)}.`, words);
      const smallest = grid("Smallest lifts", ["Probability", `Smallest ${noun}`, "95 %"]);
      for (const each of curve.lifts) {
        const row = made("tr", "", smallest.body);
        made("th", share(each.power), row).scope = "row";
        const [low, high] = each.interval.map((end, at) => size(end, each.relative_interval[at]));
        made("td", each.lift === null ? "none" : size(each.lift, each.relative) + change(each.lift), row, "figure");
        made("td", `${low} – ${high}`, row, "figure");
      }
      words.append(smallest.frame);
      const all = grid("Probabilities of lifts", [noun === "lift" ? "Lift" : "Lead", "Found (95 %)"]);
      for (const each of curve.points) {
        const row = made("tr", "", all.body);
        made("th", size(each.lift, each.relative), row).scope = "row";
        const [low, high] = each.interval.map((end) => (100 * end).toFixed(1));
        made("td", `${percent(each.probability)} (${low} – ${high})`, row, "figure");
      }
      const details = made("details", "", words, "more");
      made("summary", `All ${noun}s that were simulated`, details);
      details.append(all.frame);
    }
    made("p", (found.base === null ? "" : `A lift in percent is of the base rate, ${mean(found.base)}: that of ` +
      "the next best option. ") + `Found: named as the winner within ${many}, with error probability ` +
      `${rough(found.delta)}. From ${count(found.runs)} simulated experiments per lift, with seed ` +
      `${found.seed}. It holds if the assumptions do.`, words, "soft");
    part("result").hidden = false;
    document.getElementById("forecast").focus();
  }

  function table(plan, forecasts) {
    const blocks = plan.block > 1;
    const titles = ["Policy", `${blocks ? "Rounds" : "Outcomes"}, median`, "8 of 10 times",
      ...(blocks ? ["Outcomes, median"] : []), "÷ bound", "Wrong (95 %)"];
    if (plan.per_day) titles.push("Days");
    const { frame, body } = grid("Forecasts", titles);
    for (const each of forecasts) {
      const figure = (of, name, words = count) =>
        (of.cut.includes(name) ? "≥ " : "") + words(of[name]);
      const row = made("tr", "", body);
      made("th", each.policy + (each.block > 1 ? ` ×${each.block}` : ""), row).scope = "row";
      const [low, high] = each.error_interval;
      const counted = each.block > 1 ? each.rounds : each.pulls;
      const cells = [
        figure(counted, "median"),
        `${figure(counted, "low")} – ${figure(counted, "high")}`,
        ...(blocks ? [figure(each.pulls, "median")] : []),
        each.ratio === null ? "–" : (each.capped ? "≥ " : "") + each.ratio.toFixed(1),
        `${percent(each.error_rate)} (${(100 * low).toFixed(1)} – ${(100 * high).toFixed(1)})`,
      ];
      if (plan.per_day) {
        const [low, median, high] = ["low", "median", "high"]
          .map((name) => figure(each.days, name, days));
        cells.push(`${median} (${low} – ${high})`);
      }
      for (const cell of cells) made("td", cell, row, "figure");
    }
    return frame;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await simulate();
      say("");
    } catch (error) {
      if (error.name === "AbortError") say("Stopped.");
      else { say(""); fail(error.message); }
    } finally {
      working(false);
    }
  });
  part("stop").addEventListener("click", () => stopping.abort());
})();
