// Draws charts with uPlot: numbers come from the server, colours from the style sheet.
"use strict";
(function () {
  document.documentElement.dataset.scripted = "";
  const REFERENCE = -2; // the rank of a line that is no option's
  const DASHES = [[], [2, 4], [8, 4, 2, 4]];
  const REACH = 40; // pixels from a point within which it is told about
  const FONT = "12px system-ui, -apple-system, Segoe UI, Roboto, sans-serif";
  const brief = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
  const digits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
  const whole = new Intl.NumberFormat();

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
      width: each.rank === 0 ? 2.6 : coloured ? 2 : 1.2,
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
      const { coloured, stroke, width, dash } = look(each, of, colours);
      const dotted = each.y.length === 1 || (chart.dots && coloured);
      tables.push([each.x, each.y]);
      series.push({ label: each.label, stroke, width, dash, points: { show: dotted, size: 6, fill: stroke, stroke } });
    }
    return { data: uPlot.join(tables), series, bands };
  }

  // Horizontal lines with captions, and a cross where an option was ruled out.
  function mark(u, chart, of, colours) {
    const { ctx, bbox } = u, scale = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = 1.2 * scale;
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.font = FONT.replace("12px", `${12 * scale}px`);
    for (const [y, words] of chart.levels) {
      const at = u.valToPos(y, "y", true);
      ctx.strokeStyle = ctx.fillStyle = of("soft");
      ctx.setLineDash([6 * scale, 5 * scale]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, at);
      ctx.lineTo(bbox.left + bbox.width, at);
      ctx.stroke();
      ctx.fillText(words, bbox.left + 4 * scale, at - 2 * scale);
    }
    ctx.setLineDash([]);
    ctx.lineWidth = 2.2 * scale;
    for (const each of chart.lines) {
      const last = each.y.length - 1;
      if (!each.out || each.y[last] === null) continue;
      const x = u.valToPos(each.x[last], "x", true), y = u.valToPos(each.y[last], "y", true), size = 4.5 * scale;
      ctx.strokeStyle = look(each, of, colours).stroke;
      ctx.beginPath();
      for (const turn of [-1, 1]) {
        ctx.moveTo(x - size, y - turn * size);
        ctx.lineTo(x + size, y + turn * size);
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  // What is told about the point next to the pointer, as text.
  function tell(u, chart, tip, colours) {
    const { left, top } = u.cursor;
    let near = null, least = REACH;
    for (const each of left < 0 ? [] : chart.lines) {
      each.y.forEach((y, i) => {
        if (y === null) return;
        const away = Math.hypot(u.valToPos(each.x[i], "x") - left, u.valToPos(y, "y") - top);
        if (away < least) { least = away; near = [each, i]; }
      });
    }
    tip.hidden = near === null;
    if (near === null) return;
    const [each, i] = near, coloured = each.rank >= 0 && each.rank < colours;
    const ends = coloured && each.low.length && each.low[i] !== null && each.high[i] !== null
      ? ` (${digits.format(each.low[i])} to ${digits.format(each.high[i])})` : "";
    tip.textContent = [
      brief(each.label), `${digits.format(each.y[i])}${chart.suffix}${ends}`, `${chart.x_title} ${whole.format(Math.round(each.x[i]))}`,
    ].join("\n");
    tip.style.left = `${Math.min(left + 12, Math.max(u.over.clientWidth - tip.offsetWidth, 0))}px`;
    tip.style.top = `${Math.max(top - tip.offsetHeight - 8, 0)}px`;
  }

  function options(chart, of, colours, { series, bands }, size) {
    const axis = { stroke: of("soft"), font: FONT, labelFont: FONT, labelSize: 20, ticks: { show: false } };
    const [bottom, above] = chart.y_range;
    const tip = Object.assign(document.createElement("div"), { className: "chart-tip", hidden: true });
    return {
      ...size, series, bands,
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, low, high) => (chart.x_phases ? [low - 0.3, high + 0.3] : [0, high || 1]) },
        y: { dir: bottom > above ? -1 : 1, range: () => [Math.min(bottom, above), Math.max(bottom, above)] },
      },
      axes: [
        { ...axis, label: chart.x_title, grid: { show: false }, space: 60, size: 30, ...(chart.x_phases ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}) },
        { ...axis, label: chart.y_title, grid: { stroke: of("line"), width: 1 }, space: 40, size: 46 },
      ],
      hooks: {
        init: [(u) => { u.over.append(tip); }],
        draw: [(u) => mark(u, chart, of, colours)],
        setCursor: [(u) => tell(u, chart, tip, colours)],
      },
    };
  }

  const sizeOf = (place) => ({ width: place.clientWidth, height: place.clientHeight });
  const resize = () => { for (const place of document.querySelectorAll(".plot")) place.chart?.setSize(sizeOf(place)); };

  window.bestarmDraw = function (charts) {
    if (!window.uPlot) return;
    const of = paint();
    for (const place of document.querySelectorAll(".plot")) {
      const chart = charts[place.dataset.chart], colours = Number(place.dataset.colours);
      if (!chart) continue;
      const drawn = columns(chart, of, colours);
      place.chart?.destroy();
      place.replaceChildren();
      place.chart = new uPlot(options(chart, of, colours, drawn, sizeOf(place)), drawn.data, place);
    }
  };

  addEventListener("resize", resize);
  // Paper is narrower than the window, and light.
  addEventListener("beforeprint", resize);
  addEventListener("afterprint", resize);

  // A report brings its numbers along.
  const kept = document.getElementById("charts");
  const draw = () => { if (kept) bestarmDraw(JSON.parse(kept.textContent)); else document.dispatchEvent(new Event("bestarm-theme")); };
  draw();
  for (const what of ["(prefers-color-scheme: dark)", "print"]) matchMedia(what).addEventListener("change", draw);
})();
