'use strict';
(() => {
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const plots = [...document.querySelectorAll('.plot')];
  const inTime = plots.filter((one) => one.dataset.time !== undefined);
  const said = document.getElementById('said');
  const font = { family: 'system-ui, sans-serif', size: 12 };
  const config = { displaylogo: false, responsive: true, displayModeBar: false };
  const full = plots.length && inTime.length ? figures[inTime[0].dataset.chart].layout.xaxis.range : null;
  let shown = full && [...full];
  let moving = false;

  const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
  const show = async (from, to, except) => {
    const width = Math.max(to - from, 1000);
    shown = [from, from + width];
    moving = true;
    await Promise.all(inTime.filter((one) => one.data && one !== except)
      .map((one) => Plotly.relayout(one, { 'xaxis.range': [...shown] })));
    moving = false;
    said.textContent = `Showing ${moment(shown[0])} to ${moment(shown[1])} UTC`;
  };
  const steps = {
    ArrowLeft: (from, to) => [from - (to - from) / 4, to - (to - from) / 4],
    ArrowRight: (from, to) => [from + (to - from) / 4, to + (to - from) / 4],
    '+': (from, to) => [from + (to - from) / 4, to - (to - from) / 4],
    '-': (from, to) => [from - (to - from) / 2, to + (to - from) / 2],
    0: () => full,
  };
  const move = (key) => show(...steps[key](...shown));

  const draw = (one) => {
    if (one.data) return;
    const figure = figures[one.dataset.chart];
    Plotly.newPlot(one, figure.data, { ...figure.layout, font }, config);
    if (one.dataset.time === undefined) return;
    one.on('plotly_relayout', (change) => {
      if (moving) return;
      if (change['xaxis.autorange']) show(...full);
      else if (change['xaxis.range[0]'] !== undefined) {
        const axis = one._fullLayout.xaxis;
        show(axis.r2l(axis.range[0]), axis.r2l(axis.range[1]), one);
      }
    });
    one.addEventListener('keydown', (event) => {
      const key = event.key === '=' ? '+' : event.key;
      if (!(key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(key);
    });
  };
  for (const button of document.querySelectorAll('button[data-key]'))
    button.addEventListener('click', () => move(button.dataset.key));
  for (const box of document.querySelectorAll('input[data-group]'))
    box.addEventListener('change', () => {
      for (const one of plots.filter((plot) => plot.data)) {
        const chosen = one.data.flatMap((trace, at) => (trace.meta === box.dataset.group ? [at] : []));
        if (chosen.length) Plotly.restyle(one, { visible: box.checked }, chosen);
      }
    });
  const resize = (width) => plots.filter((one) => one.data)
    .forEach((one) => Plotly.relayout(one, { width, autosize: !width }));
  window.addEventListener('beforeprint', () => {
    for (const one of document.querySelectorAll('details')) one.open = true;
    plots.forEach(draw);
    resize(690);
  });
  window.addEventListener('afterprint', () => resize(undefined));
  // One after the other: the first can be read while the others are drawn.
  const drawFrom = (at) => {
    if (at === plots.length) {
      document.documentElement.dataset.drawn = String(at);
      return;
    }
    draw(plots[at]);
    setTimeout(drawFrom, 0, at + 1);
  };
  drawFrom(0);
  // A page of a server is taken anew once there is a newer one, unless somebody works with this one.
  if (!document.querySelector('script[src]')) return;
  let touched = false;
  let made = null;
  for (const kind of ['pointerdown', 'keydown'])
    document.addEventListener(kind, () => { touched = true; });
  const look = async () => {
    if (touched || document.hidden) return;
    const answer = await fetch(location.href, { method: 'HEAD', credentials: 'same-origin' }).catch(() => null);
    if (!answer || !answer.ok) return;
    const now = answer.headers.get('X-Made');
    if (made !== null && now !== made) location.reload();
    made = now;
  };
  look();
  setInterval(look, 30000);
})();
