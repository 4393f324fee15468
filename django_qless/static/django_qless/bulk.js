/* Carries a bulk action on by itself: sends its form again and again, each time for another
   chunk, as fast as the rate allows. Without it there is a button that does the same. */
'use strict';
(() => {
  const form = document.querySelector('[data-bulk]');
  if (!form) return;
  const part = form.querySelector('[data-bulk-part]');
  const trouble = form.querySelector('[data-bulk-trouble]');
  const buttons = form.querySelector('[data-bulk-buttons]');
  if (!buttons) return;
  const FIRST = 0.2;
  const AGAIN = 5;
  let timer = null;
  let sending = false;
  let stopping = false;

  const plan = (seconds) => {
    clearTimeout(timer);
    timer = setTimeout(send, seconds * 1000);
  };

  const end = () => {
    buttons.remove();
    part.querySelector('a')?.focus();
  };

  const send = async () => {
    if (sending) return;
    sending = true;
    const body = new FormData(form);
    if (stopping) body.set('stop', '1');
    try {
      const response = await fetch(form.action, {
        method: 'POST', body, headers: { Accept: 'application/json' }, redirect: 'manual',
      });
      if (response.type === 'opaqueredirect') {
        const link = document.createElement('a');
        link.href = location.href;
        link.textContent = form.dataset.login;
        trouble.replaceChildren(link);
        plan(AGAIN);
        return;
      }
      if (!response.ok || !response.headers.get('Content-Type').includes('json')) {
        throw new Error(String(response.status));
      }
      const answer = await response.json();
      trouble.textContent = '';
      if (answer.location) {
        location.assign(answer.location);
        return;
      }
      const fresh = new DOMParser().parseFromString(answer.html, 'text/html').body;
      part.replaceChildren(...document.importNode(fresh, true).childNodes);
      if (answer.ended) end();
      else plan(stopping ? 0 : answer.wait);
    } catch {
      trouble.textContent = form.dataset.lost;
      plan(AGAIN);
    } finally {
      sending = false;
    }
  };

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    stopping = event.submitter?.name === 'stop';
    plan(0);
  });
  form.querySelector('[data-bulk-continue]').hidden = true;
  plan(FIRST);
})();
