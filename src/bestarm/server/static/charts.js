// Draws charts with uPlot: numbers come from the server, colours from the style sheet.
"use strict";
(function () {
  document.documentElement.dataset.scripted = "";
  const REFERENCE = -2; // the rank of a line that is no option's
  const DASHES = [[], [2, 4], [8, 4, 2, 4]];
  const REACH = 40; // pixels from a point within which it is told about
  const ROW = 16; // pixels from one name to the next
  const FONT = "12px system-ui, -apple-system, Segoe UI, Roboto, sans-serif";
  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const whole = new Intl.NumberFormat("en");
  const known = (value) => value !== undefined && value !== null;

  function paint() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  // How a line looks: an option keeps its colour and its dashes, whatever its place.
  function look(each, of, colours) {
    const coloured = each.rank >= 0 && each.rank < colours;
    return {
      coloured,
      stroke: of(coloured ? `c${each.option % colours}` : each.rank === REFERENCE ? "soft" : "quiet"),
      width: each.rank === 0 ? 2.6 : coloured ? 2 : 1,
      dash: each.rank === REFERENCE ? [6, 5] : coloured ? DASHES[Math.floor(each.option / colours) % 3] : [],
    };
  }

  // Columns with a common x, and what each of them is: a line, or an end of a band.
  function columns(chart, of, colours) {
    const tables = [], series = [{}], bands = [];
    for (const each of chart.lines) {
      if (!each.low.length) continue;
      tables.push([each.x, each.high], [each.x, each.low]);
      bands.push({ series: [series.length, series.length + 1], fill: `${look(each, of, colours).stroke}22` });
      series.push(...[0, 1].map(() => ({ label: "end of a band", points: { show: false } })));
    }
    for (const each of chart.lines) {
      const { stroke, width, dash } = look(each, of, colours);
      tables.push([each.x, each.y]);
      series.push({ label: each.label, stroke, width, dash, points: { show: each.y.length === 1, size: 6, fill: stroke, stroke } });
    }
    return { data: uPlot.join(tables), series, bands };
  }

  // A text that fits into a width, with its end: names often differ there.
  function cut(ctx, text, width) {
    let kept = text.length, short = text;
    while (kept > 2 && ctx.measureText(short).width > width) {
      kept -= 1;
      short = `${text.slice(0, Math.ceil(kept / 2)).trimEnd()}…${text.slice(text.length - Math.floor(kept / 2))}`;
    }
    return short;
  }

  // Levels and marks with captions, a cross where an option was ruled out, and names beside lines.
  function annotate(u, chart, of, colours, room) {
    const { ctx, bbox } = u, scale = devicePixelRatio, right = bbox.left + bbox.width, bottom = bbox.top + bbox.height;
    const stroke = (...points) => {
      ctx.beginPath();
      points.forEach(([x, y], i) => { if (i % 2) ctx.lineTo(x, y); else ctx.moveTo(x, y); });
      ctx.stroke();
    };
    ctx.save();
    ctx.font = FONT.replace("12px", `${12 * scale}px`);
    ctx.lineWidth = scale;
    ctx.strokeStyle = ctx.fillStyle = of("soft");
    ctx.setLineDash([4 * scale, 4 * scale]);
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    for (const [y, words] of chart.levels) {
      const at = u.valToPos(y, "y", true);
      stroke([bbox.left, at], [right, at]);
      ctx.fillText(words, bbox.left + 4 * scale, at - 2 * scale);
    }
    ctx.textBaseline = "top";
    chart.marks.forEach(([x, words], i) => {
      const at = Math.min(u.valToPos(x, "x", true), right), text = cut(ctx, words, bbox.width / 3), width = ctx.measureText(text).width;
      stroke([at, bbox.top], [at, bottom]);
      ctx.fillText(text, at + width + 5 * scale > right ? at - width - 5 * scale : at + 5 * scale, bbox.top + (i % 3) * ROW * scale);
    });
    ctx.setLineDash([]);
    ctx.lineWidth = 2.2 * scale;
    const size = 4.5 * scale, names = [];
    let others = 0;
    for (const each of chart.lines) {
      const at = each.y.findLastIndex(known), { coloured, stroke: colour } = look(each, of, colours);
      if (at < 0) continue;
      const x = u.valToPos(each.x[at], "x", true), y = u.valToPos(each.y[at], "y", true);
      if (each.out && y >= bbox.top && y <= bottom) {
        ctx.strokeStyle = colour;
        stroke([x - size, y - size], [x + size, y + size], [x - size, y + size], [x + size, y - size]);
      }
      if (coloured || each.rank === REFERENCE) names.push({ text: each.label, colour, bold: each.rank === 0, y });
      else others += 1;
    }
    // Names stand where their lines end, as far as they do not cover each other.
    const step = ROW * scale;
    names.sort((one, other) => one.y - other.y);
    if (others) names.push({ text: `${others} ${names.length ? "others" : "options"}`, colour: of("soft"), y: bottom });
    names.forEach((each, i) => { each.y = Math.max(each.y, i ? names[i - 1].y + step : bbox.top + step / 2); });
    names.reduceRight((limit, each) => { each.y = Math.min(each.y, limit); return each.y - step; }, bottom);
    ctx.textBaseline = "middle";
    for (const { text, colour, bold, y } of names) {
      ctx.fillStyle = colour;
      ctx.font = FONT.replace("12px", `${bold ? "600 " : ""}${12 * scale}px`);
      ctx.fillText(cut(ctx, text, (room - 10) * scale), right + 8 * scale, y);
    }
    ctx.restore();
  }

  // What is told about the point next to the pointer, as text.
  function tell(u, chart, tip) {
    const { left, top } = u.cursor;
    let near = null, least = REACH;
    for (const each of left < 0 ? [] : chart.lines) {
      each.y.forEach((y, i) => {
        if (!known(y)) return;
        const away = Math.hypot(u.valToPos(each.x[i], "x") - left, u.valToPos(y, "y") - top);
        if (away < least) { least = away; near = [each, i]; }
      });
    }
    tip.hidden = near === null;
    if (near === null) return;
    const [each, i] = near, at = Math.round(each.x[i]);
    const ends = known(each.low[i]) && known(each.high[i]) ? ` (${digits.format(each.low[i])} to ${digits.format(each.high[i])})` : "";
    const name = each.label.length > 40 ? `${each.label.slice(0, 39)}…` : each.label;
    tip.textContent = `${name}\n${digits.format(each.y[i])}${chart.suffix}${ends}\n${chart.x_name ? `${digits.format(each.x[i])} ${chart.x_name}` : `${whole.format(at)} outcome${at === 1 ? "" : "s"}`}`;
    tip.style.left = `${Math.min(left + 12, Math.max(u.over.clientWidth - tip.offsetWidth, 0))}px`;
    tip.style.top = `${Math.max(top - tip.offsetHeight - 8, 0)}px`;
  }

  function options(chart, of, colours, { series, bands }, size) {
    const axis = { stroke: of("soft"), font: FONT, ticks: { show: false } };
    const tip = Object.assign(document.createElement("div"), { className: "chart-tip", hidden: true });
    const room = size.width < 500 ? 92 : 190; // for names beside lines
    const counts = (_, splits) => splits.map((x, i) => `${digits.format(x)}${i === splits.length - 1 ? ` ${chart.x_name || "outcomes"}` : ""}`);
    const amounts = (_, splits) => splits.map((y) => (Math.abs(y) < 1000 ? digits : whole).format(y).replace("-", "−"));
    return {
      ...size, series, bands,
      padding: [8, room, 0, 0],
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: (_, low, high) => [chart.x_name ? low : 0, high || 1] }, y: { range: () => chart.y_range } },
      axes: [
        { ...axis, grid: { show: false }, space: 80, size: 30, values: counts },
        { ...axis, grid: { stroke: of("line"), width: 1 }, space: 40, size: 60, values: amounts },
      ],
      hooks: {
        init: [(u) => { u.over.append(tip); }],
        draw: [(u) => annotate(u, chart, of, colours, room)],
        setCursor: [(u) => tell(u, chart, tip)],
      },
    };
  }

  let drawn = {};
  window.bestarmDraw = function (charts) {
    drawn = charts;
    const of = paint();
    for (const place of document.querySelectorAll(".plot")) {
      const chart = drawn[place.dataset.chart], size = { width: place.clientWidth, height: place.clientHeight };
      if (!window.uPlot || !chart || !size.width) continue; // another view is chosen
      const colours = Number(place.dataset.colours), parts = columns(chart, of, colours);
      place.chart?.destroy();
      place.replaceChildren();
      place.chart = new uPlot(options(chart, of, colours, parts, size), parts.data, place);
    }
  };

  const again = () => bestarmDraw(drawn);
  addEventListener("change", (event) => { if (event.target.name === "view") again(); });
  // Paper is narrower than the window, and light.
  for (const what of ["resize", "beforeprint", "afterprint"]) addEventListener(what, again);
  for (const what of ["(prefers-color-scheme: dark)", "print"]) matchMedia(what).addEventListener("change", again);
  document.addEventListener("bestarm-theme", again);

  // A report brings its numbers along.
  const kept = document.getElementById("charts");
  if (kept) bestarmDraw(JSON.parse(kept.textContent));
})();
