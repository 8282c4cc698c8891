// Draws charts with Plotly: numbers come from the server, colours from the style sheet.
"use strict";
(function () {
  document.documentElement.dataset.scripted = "";
  // Plotly reads a little HTML in texts: what users typed is written so that it stays text.
  const REFERENCE = -2; // the rank of a line that is no option's
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

  function traces(chart, of, colours) {
    const made = [];
    const coloured = (each) => each.rank >= 0 && each.rank < colours;
    // An option keeps its colour and its dashes, whatever its place.
    const colour = (each) => of(coloured(each) ? `c${each.option % colours}` : each.rank === REFERENCE ? "soft" : "quiet");
    const dashes = (each) => (each.rank === REFERENCE ? "dash" : coloured(each) ? ["solid", "dot", "dashdot"][Math.floor(each.option / colours) % 3] : "solid");
    for (const each of chart.lines) {
      if (!each.low.length) continue;
      const there = each.x.map((_, i) => i).filter((i) => each.low[i] !== null && each.high[i] !== null);
      const edge = { x: there.map((i) => each.x[i]), mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      made.push({ ...edge, y: there.map((i) => each.low[i]) });
      made.push({ ...edge, y: there.map((i) => each.high[i]), fill: "tonexty", fillcolor: see(colour(each), 0.13) });
    }
    for (const each of chart.lines) {
      const at = each.y.length - 1;
      const dotted = chart.dots && each.rank !== REFERENCE && each.rank < colours;
      const marks = each.y.map((_, i) => (each.out && i === at ? 9 : dotted ? 5 : 0));
      if (at === 0) marks[0] = 8;
      made.push({
        x: each.x, y: each.y, name: plain(brief(each.label)),
        mode: marks.some(Boolean) ? "lines+markers" : "lines",
        line: { color: colour(each), width: each.rank === 0 ? 2.6 : coloured(each) ? 2 : 1.2, dash: dashes(each) },
        marker: { color: colour(each), size: marks, line: { color: colour(each), width: marks.map((_, i) => (each.out && i === at ? 2.2 : 0)) }, opacity: marks.map((size) => (size ? 1 : 0)), symbol: marks.map((_, i) => (each.out && i === at ? "x-thin" : "circle")) },
        hoverinfo: "text",
        text: each.y.map((y, i) => (y === null ? "" : `<b>${plain(brief(each.label))}</b><br>${digits.format(y)}${chart.suffix}${
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

  window.bestarmDraw = function (charts) {
    if (!window.Plotly) return;
    const of = paint();
    for (const place of document.querySelectorAll(".plot")) {
      const chart = charts[place.dataset.chart];
      if (!chart) continue;
      const drawn = traces(chart, of, Number(place.dataset.colours));
      Plotly.react(place, drawn, layout(chart, of), { displayModeBar: false, responsive: true });
    }
  };

  // Paper is narrower than the window, and light.
  const resize = () => { for (const place of document.querySelectorAll(".plot")) window.Plotly?.Plots.resize(place); };
  addEventListener("beforeprint", resize);
  addEventListener("afterprint", resize);

  // A report brings its numbers along.
  const kept = document.getElementById("charts");
  const draw = () => { if (kept) bestarmDraw(JSON.parse(kept.textContent)); else document.dispatchEvent(new Event("bestarm-theme")); };
  draw();
  for (const what of ["(prefers-color-scheme: dark)", "print"]) matchMedia(what).addEventListener("change", draw);
})();
