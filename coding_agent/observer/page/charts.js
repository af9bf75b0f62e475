// Five small charts of the last five minutes. One path each, drawn anew with every figure.
import { h, setText } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const POINTS = 300;
const LEAST = 60;

const whole = (value) => Math.round(value).toLocaleString("en");
const CHARTS = [
  { key: "processes", name: "Processes", show: whole },
  { key: "busy", name: "At work", show: whole },
  { key: "rate", name: "Messages", unit: "/s", show: (value) => (value >= 100 ? whole(value) : value.toFixed(1)) },
  { key: "mailbox", name: "Waiting in mailboxes", show: whole },
  { key: "lag_ms", name: "Event loop lag", unit: "ms", show: (value) => (value >= 10 ? whole(value) : value.toFixed(1)) },
];

export class Charts {
  constructor(place) {
    this.figures = [];
    this.drawn = CHARTS.map((chart) => {
      const value = h("span", {}, "–");
      const most = h("div", { class: "most" });
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("aria-hidden", "true");
      const paths = ["fill", "stroke"].map((kind) => {
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("class", kind);
        svg.append(path);
        return path;
      });
      place.append(
        h("div", { class: "chart", data: { chart: chart.key } },
          h("div", { class: "name" }, chart.name),
          h("div", { class: "value" }, value, chart.unit ? h("small", {}, chart.unit) : null), most, svg));
      return { ...chart, value, most, svg, paths };
    });
  }

  all(figures) {
    this.figures = figures.slice(-POINTS);
    this.draw();
  }

  add(figure) {
    this.figures.push(figure);
    if (this.figures.length > POINTS) this.figures.shift();
    this.draw();
  }

  draw() {
    for (const chart of this.drawn) {
      const values = this.figures.map((figure) => figure[chart.key] ?? 0);
      if (!values.length) continue;
      const most = Math.max(...values);
      setText(chart.value, chart.show(values[values.length - 1]));
      setText(chart.most, most > 0 ? `max ${chart.show(most)}` : "");
      const least = chart.key === "processes" ? Math.min(...values) * 0.9 : 0;
      const height = Math.max(most - least, chart.key === "lag_ms" ? 10 : 1);
      const width = Math.max(LEAST, values.length);
      const start = width - values.length;
      chart.svg.setAttribute("viewBox", `0 0 ${width - 1} 34`);
      const line = values.map((value, i) => `${start + i},${(32 - (30 * (value - least)) / height).toFixed(1)}`).join("L");
      chart.paths[0].setAttribute("d", `M${start},34L${line}L${width - 1},34Z`);
      chart.paths[1].setAttribute("d", `M${line}`);
    }
  }
}
