"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 52rem)");
  const last = content.labels.length - 1;
  let position = last;

  // Colours are names such as "@blue"; what they are depends on the light.
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const found = {};
    const colour = (name) => (found[name] ??= style.getPropertyValue("--" + name).trim());
    const themed = (value) => {
      if (typeof value === "string") return value.startsWith("@") ? colour(value.slice(1)) : value;
      if (Array.isArray(value)) return typeof value[0] === "object" ? value.map(themed) : value;
      if (value === null || typeof value !== "object") return value;
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, themed(part)]));
    };
    return { colour, themed };
  };

  // The active rows that a position of the slider shows, and the next one.
  const picked = (trace) => {
    const count = position < content.stages.length ? content.stages[position] : Infinity;
    const range = trace.meta === "next" ? [count, count + 1] : [0, count];
    return { ...trace, x: trace.x.slice(...range), y: trace.y.slice(...range) };
  };

  const traces = (figure) => figure.data.map((trace, place) => {
    const frame = figure.frames.length ? figure.frames[position][place] : undefined;
    const merged = frame ? { ...trace, ...frame } : trace;
    return merged.meta ? picked(merged) : merged;
  });

  const axis = (given, colour) => ({
    gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true, ...given,
    title: { standoff: 8, ...(given.title ?? {}) },
  });

  const layout = (figure, { colour, themed }) => {
    const made = themed(figure.layout);
    for (const key of Object.keys(made)) if (/^[xy]axis/.test(key)) made[key] = axis(made[key], colour);
    return {
      ...made,
      autosize: true,
      paper_bgcolor: colour("clear"),
      plot_bgcolor: colour("clear"),
      font: { color: colour("text"), family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 12.5 },
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("line"), font: { color: colour("text") } },
      legend: {
        orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left", bgcolor: colour("clear"),
        traceorder: "normal", font: { size: narrow.matches ? 10.5 : 12 },
      },
      margin: { l: 52, ...made.margin },
      dragmode: false,
    };
  };

  const options = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };

  // One after the other, so that the first are there at once.
  const draw = async (keys) => {
    const look = theme();
    for (const key of keys) {
      const figure = content.figures[key];
      await Plotly.react(key, look.themed(traces(figure)), layout(figure, look), options);
      if (keys === all) await new Promise((go) => setTimeout(go));
    }
  };

  const all = [...document.querySelectorAll(".plot")].map((plot) => plot.id);
  const moving = all.filter((key) => content.figures[key].frames.length);
  const slider = document.getElementById("stage");

  const move = (to) => {
    position = to;
    slider.value = to;
    slider.setAttribute("aria-valuetext", content.labels[to]);
    document.getElementById("stage-label").textContent = content.labels[to];
    return draw(moving);
  };

  if (slider) {
    const play = document.getElementById("play");
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
    slider.addEventListener("input", () => { stop(); move(Number(slider.value)); });
    play.addEventListener("click", () => {
      if (timer !== null) return stop();
      play.textContent = "Pause";
      move(position === last ? 0 : position);
      timer = setInterval(() => (position < last ? move(position + 1) : stop()), 450);
    });
  }
  dark.addEventListener("change", () => draw(all));
  narrow.addEventListener("change", () => draw(all));
  draw(all).then(() => { document.documentElement.dataset.ready = "true"; });
})();
