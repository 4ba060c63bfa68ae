"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 52rem)");
  const last = content.labels.length - 1;
  let position = last;
  let printing = false; // figures then have the width of the paper, which no event tells

  // Colours are names such as "@blue"; what they are depends on the light.
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const known = {};
    const colour = (name) => (known[name] ??= style.getPropertyValue("--" + name).trim());
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

  // On a phone, points are few and so small that they do not hide what is behind them.
  const MOST = 150;
  const onPhone = (trace) => {
    const every = trace.meta === "many" ? Math.ceil(trace.x.length / MOST) : 1;
    const some = (values) => values.filter((_, place) => place % every === 0);
    return { ...trace, x: some(trace.x), y: some(trace.y), marker: { ...trace.marker, size: 0.6 * trace.marker.size } };
  };

  const traces = (figure) => figure.data.map((trace, place) => {
    const frame = figure.frames.length ? figure.frames[position][place] : undefined;
    const merged = frame ? { ...trace, ...frame } : trace;
    const sized = narrow.matches && merged.marker?.size ? onPhone(merged) : merged;
    return sized.meta === "so far" || sized.meta === "next" ? picked(sized) : sized;
  });

  // A title in lines of about so many pixels.
  const LETTER = 6.6; // pixels, of the width of a letter on average
  const CROWDED = 36; // pixels for each label of an axis, below which they are set small
  const wrapped = (text, pixels) => {
    const most = Math.max(pixels / LETTER, 12);
    return text.split(" ").reduce(([...lines], word) => {
      const line = lines.at(-1);
      if (line !== undefined && line.length + 1 + word.length <= most) return [...lines.slice(0, -1), `${line} ${word}`];
      return [...lines, word];
    }, []).join("<br>");
  };

  const axis = (own, colour, pixels) => ({
    gridcolor: colour("line"), linecolor: colour("line"), tickcolor: colour("line"), ticks: "outside", ticklen: 4,
    zeroline: false, automargin: true, ...own,
    ...(own.ticktext?.length > pixels / CROWDED ? { tickfont: { size: 9 } } : {}),
    title: { standoff: 8, ...(own.title ?? {}), text: wrapped(own.title?.text ?? "", pixels) },
  });

  const layout = (key, figure, { colour, themed }) => {
    const styled = themed(figure.layout);
    const { clientWidth, clientHeight } = document.getElementById(key);
    const room = { x: clientWidth * (styled.yaxis?.type === "category" ? 0.5 : 0.75), y: clientHeight * 0.75 };
    for (const name of Object.keys(styled)) {
      if (/^[xy]axis/.test(name)) styled[name] = axis(styled[name], colour, room[name[0]]);
    }
    return {
      ...styled,
      ...(printing ? { width: clientWidth, height: clientHeight } : { autosize: true }),
      paper_bgcolor: colour("clear"),
      plot_bgcolor: colour("clear"),
      font: { color: colour("text"), family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 12.5 },
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("line"), font: { color: colour("text") } },
      legend: {
        orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left", bgcolor: colour("clear"),
        traceorder: "normal", itemsizing: "constant", font: { size: narrow.matches ? 10.5 : 12 },
      },
      margin: { l: 52, ...styled.margin },
      dragmode: false,
    };
  };

  const options = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };

  const all = [...document.querySelectorAll(".plot")].map((plot) => plot.id);
  const moving = all.filter((key) => content.figures[key].frames.length);
  const waiting = new Set(all); // those not drawn yet, or drawn in another light

  // Plotly takes long to start, so it is kept as text until the first figure is drawn.
  const start = () => {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
    script.remove();
  };

  const draw = (key) => {
    start();
    waiting.delete(key);
    const figure = content.figures[key];
    const look = theme();
    return Plotly.react(key, look.themed(traces(figure)), layout(key, figure, look), options);
  };

  // Figures in a folded part wait until it is opened.
  const folds = [...document.querySelectorAll("details")];
  const isFolded = (key) => document.getElementById(key).closest("details:not([open])") !== null;
  const due = () => all.find((key) => waiting.has(key) && !isFolded(key));

  // Until what is there has been painted; a page that nobody sees never is.
  const painted = () => new Promise((go) => {
    if (document.hidden) setTimeout(go);
    else requestAnimationFrame(() => setTimeout(go));
  });

  // The words first, then the figures one by one from the top, while the reader reads.
  let drawing = false;
  const drawWaiting = async () => {
    if (drawing) return;
    drawing = true;
    while (due()) {
      await painted();
      if (due()) await draw(due());
    }
    drawing = false;
    document.documentElement.dataset.ready = "true";
  };
  const redraw = () => {
    all.forEach((key) => waiting.add(key));
    drawWaiting();
  };

  const slider = document.getElementById("stage");

  const move = async (to) => {
    position = to;
    slider.value = to;
    slider.setAttribute("aria-valuetext", content.labels[to]);
    document.getElementById("stage-label").textContent = content.labels[to];
    for (const key of moving) await draw(key);
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
  folds.forEach((fold) => fold.addEventListener("toggle", () => drawWaiting()));
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  let folded = [];
  window.addEventListener("beforeprint", () => {
    printing = true;
    folded = folds.filter((fold) => !fold.open);
    folded.forEach((fold) => { fold.open = true; });
    document.documentElement.classList.add("printing");
    all.forEach(draw);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    folded.forEach((fold) => { fold.open = false; });
    document.documentElement.classList.remove("printing");
    redraw();
  });
  drawWaiting();
})();
