// Gives the figures the colors of the page, light or dark, whenever those change. On a phone, legends
// go below, a line for each name, and the figure grows by as much.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, line, card] = ["--ink", "--line", "--card"].map((name) => style.getPropertyValue(name).trim());
    const change = { "font.color": ink, "hoverlabel.bgcolor": card, "hoverlabel.bordercolor": line, "hoverlabel.font.color": ink };
    for (const axis of ["xaxis", "yaxis"]) {
      for (const part of ["gridcolor", "linecolor", "zerolinecolor", "tickcolor"]) {
        change[`${axis}.${part}`] = line;
      }
    }
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {
      Plotly.relayout(plot, narrow.matches && plot.layout.showlegend ? { ...change, ...below(plot) } : change);
    }
  };
  const below = (plot) => {
    plot.dataset.height ??= plot.layout.height;
    const names = plot.data.filter((trace) => trace.showlegend !== false).length;
    const height = Number(plot.dataset.height) + 20 * names;
    plot.style.height = plot.parentElement.style.height = `${height}px`;
    return { height, "legend.y": 0, "legend.yref": "container", "legend.yanchor": "bottom", "margin.b": 20 * names + 20 };
  };
  dark.addEventListener("change", paint);
  addEventListener("DOMContentLoaded", paint);
})();
