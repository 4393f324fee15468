/* Ticks all rows of a table, and counts those that are ticked. The form of
   parts/selection.html works without it. */
'use strict';
(() => {
  const form = document.getElementById('qless-selection');
  if (!form) return;
  const label = form.querySelector('[data-select-all]');
  const all = label.querySelector('input');
  const status = form.querySelector('[data-selected]');
  const usual = status.textContent;
  const boxes = () => [...document.querySelectorAll('input[form="qless-selection"]')];

  const count = () => {
    const every = boxes();
    const ticked = every.filter((box) => box.checked).length;
    all.checked = ticked > 0 && ticked === every.length;
    all.indeterminate = ticked > 0 && ticked < every.length;
    status.textContent = ticked ? `${ticked} ${status.dataset.selected}` : usual;
  };

  all.addEventListener('change', () => {
    for (const box of boxes()) box.checked = all.checked;
    count();
  });
  /* The rows may be replaced at any time: listen above them. */
  document.addEventListener('change', (event) => {
    if (event.target.matches('input[form="qless-selection"]')) count();
  });
  /* A browser may remember ticks when one comes back to a page. */
  window.addEventListener('pageshow', count);
  label.hidden = false;
  count();
})();
