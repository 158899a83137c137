/** Elements of the page, made and changed; text is never read as HTML. */

export const element = (id) => document.getElementById(id);

/** A new element with text. */
export function make(tag, text, properties = {}) {
  return Object.assign(document.createElement(tag), { textContent: text, ...properties });
}

/** Change a text where it differs; `target` is an element or its id. */
export function set(target, text) {
  const found = typeof target === 'string' ? element(target) : target;
  if (found.textContent !== text) found.textContent = text;
}

/** A table's cell: what it holds, its heading where the table is narrow, its class. */
export function cell(children, label, className) {
  const made = make('td', '', { className });
  if (label) made.dataset.label = label;
  made.append(...children);
  return made;
}

/** Show rows in a table's body; one that looks as before stays, so that text can be selected. */
export function fill(body, rows, make_row) {
  rows.forEach((row, i) => {
    const { dataset, cells } = make_row(row);
    const made = document.createElement('tr');
    Object.assign(made.dataset, dataset);
    made.append(...cells);
    const old = body.rows[i];
    if (!old) body.append(made);
    else if (!old.isEqualNode(made)) old.replaceWith(made);
  });
  while (body.rows.length > rows.length) body.lastElementChild.remove();
}
