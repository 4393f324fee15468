/* Refreshes the live parts of a page. Without it pages are as they were loaded.

   It asks for the page's own URL with live=1. It rests while the tab is hidden, and leaves
   alone a part that the pointer or the focus is in, so that nothing moves away under them: it
   says so, and puts the part there when they have left.
   A search that has found nothing yet goes on by itself: see parts/pager.html. */
'use strict';
(() => {
  const KEY = 'qless.refresh';
  const USUAL = '5';
  const AGAIN = 5;
  const SHARE = 10; /* What takes a second is asked for every ten. */
  const box = document.querySelector('[data-refresh]');
  if (!box || !document.querySelector('[data-live]')) return;
  const choice = box.querySelector('[data-interval]');
  const state = box.querySelector('[data-refresh-state]');
  let timer = null;
  let asking = false;
  let rest = 0;
  let pending = null; /* What was not put because it is in use. */

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

  /* A redirect means that the user has to log in; the login page leads back here. */
  const say = (text, url) => {
    state.classList.remove('qless-paused');
    if (state.textContent === text) return;
    state.textContent = url ? '' : text;
    if (!url) return;
    const link = document.createElement('a');
    link.href = url;
    link.textContent = text;
    state.append(link);
  };

  const unfinished = (where = document) => where.querySelector('[data-continue]');

  const put = (parts) => {
    pending = null;
    for (const part of document.querySelectorAll('[data-live]')) {
      const html = parts[part.dataset.live];
      if (html === undefined || html === part.qlessShown) continue;
      if (inUse(part) && !unfinished(part)) {
        pending = parts;
        continue;
      }
      const fresh = new DOMParser().parseFromString(html, 'text/html').body;
      const open = new Set([...part.querySelectorAll('details[open][id]')].map((each) => each.id));
      part.replaceChildren(...document.importNode(fresh, true).childNodes);
      for (const each of part.querySelectorAll('details[id]')) each.open = each.open || open.has(each.id);
      part.qlessShown = html;
    }
    say(pending ? state.dataset.paused : '');
    state.classList.toggle('qless-paused', Boolean(pending));
  };

  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    const search = unfinished();
    const began = performance.now();
    try {
      const url = new URL(search?.href ?? location.href);
      url.searchParams.set('live', '1');
      if (search) say(state.dataset.searching);
      const response = await fetch(url, { headers: { Accept: 'application/json' }, redirect: 'manual' });
      if (response.type === 'opaqueredirect') {
        say(state.dataset.login, location.href);
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      put((await response.json()).parts);
      if (search) history.replaceState(null, '', search.href);
      if (search && !unfinished()) location.reload(); /* Its form stands outside the part. */
      rest = ((performance.now() - began) / 1000) * SHARE;
    } catch {
      say(state.dataset.lost);
      rest = AGAIN;
    } finally {
      asking = false;
      plan();
    }
  };

  const plan = () => {
    clearTimeout(timer);
    if (document.hidden) return;
    const chosen = Number(choice.value);
    if (unfinished()) timer = setTimeout(ask, rest === AGAIN ? AGAIN * 1000 : 0);
    else if (chosen > 0) timer = setTimeout(ask, Math.max(chosen, rest) * 1000);
  };

  /* Where the pointer and the focus have come to: what they have left is put. */
  const resume = () => { if (pending) put(pending); };
  for (const event of ['pointerover', 'focusin', 'change']) document.addEventListener(event, resume);

  choice.value = remembered();
  if (!choice.value) choice.value = USUAL;
  choice.addEventListener('change', () => { remember(choice.value); plan(); });
  document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : ask()));
  box.hidden = false;
  plan();
})();
