// Gives the figures the colors of the page, light or dark, whenever those change. On a phone, legends
// go below, a line for each name, and the figure grows by as much; names of rows are shortened.
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
      plot.names ??= plot.layout.yaxis.ticktext;
      Plotly.relayout(plot, {
        ...change,
        ...(narrow.matches && plot.layout.showlegend ? below(plot) : {}),
        ...(plot.names ? { "yaxis.ticktext": narrow.matches ? plot.names.map(short) : plot.names } : {}),
      });
    }
  };
  const escapes = { "<": "&lt;", ">": "&gt;", "&": "&amp;" };
  const short = (name) => {
    const text = name.replace(/&lt;|&gt;|&amp;/g, (found) => ({ l: "<", g: ">", a: "&" })[found[1]]);
    const cut = text.length > 20 ? `${text.slice(0, 10)}…${text.slice(-9)}` : text;
    return cut.replace(/[<>&]/g, (found) => escapes[found]);
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
