'use strict';
(() => {
  const draw = () => {
    for (const plot of document.querySelectorAll('.plot')) {
      if (plot.drawn === plot.dataset.figure) continue;
      plot.drawn = plot.dataset.figure;
      const { data, layout } = JSON.parse(plot.drawn);
      const font = { family: 'system-ui, sans-serif', size: 12 };
      Plotly.react(plot, data, { ...layout, font }, { displayModeBar: false, responsive: true });
    }
  };
  const take = async () => {
    const answer = await fetch(location.href, { credentials: 'same-origin' });
    if (!answer.ok) return live.textContent = `as it was before: it cannot be made anew now (${answer.status})`;
    live.textContent = 'live';
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const part of page.querySelectorAll('[data-live]')) {
      const shown = document.getElementById(part.id);
      if (!shown) continue;
      if (part.classList.contains('plot')) shown.dataset.figure = part.dataset.figure;
      else if (shown.innerHTML !== part.innerHTML && !shown.contains(document.activeElement)) shown.innerHTML = part.innerHTML;
    }
    draw();
  };
  draw();
  const live = document.getElementById('live');
  let busy = false, full = false;
  if (live) {
    const changes = new EventSource(`changes?of=${location.pathname.split('/').pop()}`);
    changes.addEventListener('open', () => { full = false; live.textContent = 'live'; });
    changes.addEventListener('full', ({ data }) => {
      live.textContent = `not live: ${data} pages are open, which is the most; as of when it was opened`;
      full = true;
    });
    changes.addEventListener('error', () => { if (!full) live.textContent = 'the server does not answer'; });
    changes.addEventListener('message', async () => {
      if (busy || document.hidden || !getSelection().isCollapsed) return;
      busy = true;
      try { await take(); } catch { live.textContent = 'the server does not answer'; } finally { busy = false; }
    });
  }
  for (const field of document.querySelectorAll('form.filter select'))
    field.addEventListener('change', () => field.form.requestSubmit());
})();
