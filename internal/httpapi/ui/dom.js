// Elements are made here and filled by text alone: nothing that the service tells is ever read as HTML.

// make makes an element with classes and children; a child that is no element is text.
export function make(tag, classes = '', ...children) {
  const node = document.createElement(tag);
  if (classes) {
    node.className = classes;
  }
  node.append(...children);
  return node;
}

// setText changes a text only if it differs, so that what somebody has selected stays selected.
export function setText(node, value) {
  const wanted = String(value);
  if (node.textContent !== wanted) {
    node.textContent = wanted;
  }
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

// setShare fills a bar; share is 0..1.
export function setShare(bar, share) {
  const percent = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  if (bar.style.getPropertyValue('--share') !== percent) {
    bar.style.setProperty('--share', percent);
  }
}

// fillOnce rebuilds the children of a node only when what they show has changed.
export function fillOnce(node, shown, build) {
  const state = JSON.stringify(shown);
  if (node.dataset.shown !== state) {
    node.dataset.shown = state;
    node.replaceChildren(...build());
  }
}

// KeyedList keeps one child an item, by key. What stays in its place is not moved, so that focus and
// open details survive.
export class KeyedList {
  constructor(parent, build) {
    this.parent = parent;
    this.build = build; // returns { node, update(item) }
    this.entries = new Map();
  }

  show(items, keyOf) {
    const wanted = new Map(items.map((item) => [keyOf(item), item]));
    for (const [key, entry] of this.entries) {
      if (!wanted.has(key)) {
        entry.node.remove();
        this.entries.delete(key);
      }
    }
    let place = this.parent.firstElementChild;
    for (const [key, item] of wanted) {
      let entry = this.entries.get(key);
      if (!entry) {
        entry = this.build();
        this.entries.set(key, entry);
      }
      entry.update(item);
      if (entry.node === place) {
        place = place.nextElementSibling;
      } else {
        this.parent.insertBefore(entry.node, place);
      }
    }
  }
}
