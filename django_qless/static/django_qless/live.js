/* Refreshes the live parts of a page. Without it pages are as they were loaded.

   It asks for the page's own URL with live=1. It rests while the tab is hidden, and leaves
   alone a part that the pointer or the focus is in, so that nothing moves away under them. */
'use strict';
(() => {
  const KEY = 'qless.refresh';
  const USUAL = '5';
  const box = document.querySelector('[data-refresh]');
  if (!box || !document.querySelector('[data-live]')) return;
  const choice = box.querySelector('[data-interval]');
  const state = box.querySelector('[data-refresh-state]');
  let timer = null;
  let asking = false;

  const remembered = () => {
    try { return localStorage.getItem(KEY) || USUAL; } catch { return USUAL; }
  };
  const remember = (value) => {
    try { localStorage.setItem(KEY, value); } catch { /* a private window: this page only */ }
  };

  const inUse = (part) => {
    if (part.matches(':hover') || part.contains(document.activeElement)) return true;
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return true;
    return Boolean(part.querySelector('input:checked, details[open].qless-keep'));
  };

  const put = (parts) => {
    for (const part of document.querySelectorAll('[data-live]')) {
      const html = parts[part.dataset.live];
      if (html === undefined || html === part.qlessShown || inUse(part)) continue;
      const fresh = new DOMParser().parseFromString(html, 'text/html').body;
      const open = new Set([...part.querySelectorAll('details[open][id]')].map((each) => each.id));
      part.replaceChildren(...document.importNode(fresh, true).childNodes);
      for (const each of part.querySelectorAll('details[id]')) each.open = each.open || open.has(each.id);
      part.qlessShown = html;
    }
  };

  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const url = new URL(location.href);
      url.searchParams.set('live', '1');
      const response = await fetch(url, { headers: { Accept: 'application/json' }, redirect: 'error' });
      if (!response.ok) throw new Error(String(response.status));
      put((await response.json()).parts);
      state.textContent = '';
    } catch {
      state.textContent = state.dataset.lost;
    } finally {
      asking = false;
      plan();
    }
  };

  const plan = () => {
    clearTimeout(timer);
    const seconds = Number(choice.value);
    if (seconds > 0 && !document.hidden) timer = setTimeout(ask, seconds * 1000);
  };

  choice.value = remembered();
  if (!choice.value) choice.value = USUAL;
  choice.addEventListener('change', () => { remember(choice.value); plan(); });
  document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : ask()));
  box.hidden = false;
  plan();
})();
