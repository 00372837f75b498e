// Finds elements as Chrome's recorder names them. An alternative has `parts`, each [kind, value] and searched inside what
// the one before has found, or is `pointed` at: aria.py finds elements from another world, which can hand over none, and
// says which they are by an event on each, of a name that nobody else knows. Runs in a world of its own.
const shadow = node => node.shadowRoot || node;
const below = root => {
  const roots = [shadow(root)];
  for (const one of roots) for (const node of one.querySelectorAll("*")) if (node.shadowRoot) roots.push(node.shadowRoot);
  return roots;
};
const flat = value => value.replace(/\s+/g, " ").trim();
const head = document.head;
const readable = node => !["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"].includes(node.nodeName) && !(head && head.contains(node));
const typed = node => node instanceof HTMLTextAreaElement ||
  (node instanceof HTMLInputElement && !["checkbox", "image", "radio", "hidden", "password"].includes(node.type));
const texts = new Map();
const textOf = root => {
  if (texts.has(root)) return texts.get(root);
  let text = "";
  if (typed(root)) text = root.value;
  else {
    for (const node of root.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) text += node.data;
      else if (node.nodeType === Node.ELEMENT_NODE && readable(node)) text += textOf(node);
    }
    if (root.shadowRoot) text += textOf(root.shadowRoot);
  }
  texts.set(root, text);
  return text;
};
// The smallest elements whose text fits.
const smallest = (root, fits) => {
  const found = [], roots = root.nodeType === Node.DOCUMENT_NODE ? [root.body || root.documentElement] : [root];
  const search = node => {
    if (!fits(textOf(node))) return false;
    let inside = false;
    for (const scope of node.shadowRoot ? [node.shadowRoot, node] : [node]) {
      for (const inner of scope.childNodes) {
        if (inner.nodeType === Node.ELEMENT_NODE && readable(inner) && search(inner)) inside = true;
      }
    }
    if (!inside && node.nodeType === Node.ELEMENT_NODE) found.push(node);
    return inside || node.nodeType === Node.ELEMENT_NODE;
  };
  for (const one of roots) if (one) search(one);
  return found;
};
// XPath knows no shadow roots, so there it is asked of each child in turn.
const byXPath = (root, value) => {
  const hidden = root instanceof ShadowRoot, found = [];
  const expression = hidden ? value.replace(/^\.?\/\//, "descendant-or-self::") : value;
  for (const scope of hidden ? root.children : [root]) {
    const result = document.evaluate(expression, scope, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
    for (let at = 0; at < result.snapshotLength; at++) {
      const node = result.snapshotItem(at);
      if (node.nodeType === Node.ELEMENT_NODE) found.push(node);
    }
  }
  return found;
};
const part = (root, [kind, value]) => {
  if (kind === "text") return smallest(shadow(root), text => text.includes(value));
  if (kind === "xpath") return byXPath(shadow(root), value);
  if (kind === "pierce") return below(root).flatMap(one => [...one.querySelectorAll(value)]);
  return [...shadow(root).querySelectorAll(value)];
};
// From now on, elements at which is pointed are kept, by the name of the event, until they are forgotten.
const heard = globalThis.heard || (globalThis.heard = new Map());
const hear = names => {
  for (const name of names) {
    const nodes = [], listener = event => nodes.push(event.composedPath()[0]);
    heard.set(name, {nodes, listener});
    document.addEventListener(name, listener, true);
  }
};
const pointedAt = name => heard.has(name) ? heard.get(name).nodes : [];
const forget = names => {
  for (const name of names) {
    if (heard.has(name)) document.removeEventListener(name, heard.get(name).listener, true);
    heard.delete(name);
  }
};
// What is inside of a closed shadow root would be taken for its host.
const isOpen = node => {
  const root = node.getRootNode();
  return !(root instanceof ShadowRoot) || (root.mode === "open" && isOpen(root.host));
};
const point = (name, nodes) => {
  for (const node of nodes) {
    if (node.nodeType === Node.ELEMENT_NODE && isOpen(node)) node.dispatchEvent(new Event(name, {composed: true}));
  }
};
const all = alternative => {
  if (alternative.pointed) return pointedAt(alternative.pointed).filter(node => node.isConnected);
  try {
    let found = [document];
    for (const one of alternative.parts) found = [...new Set(found.flatMap(root => part(root, one)))];
    return found;
  } catch (error) {
    if (error instanceof DOMException) return [];
    throw error;
  }
};
const visible = node => {
  if (!node.isConnected) return false;
  const style = getComputedStyle(node);
  if (style.display === "contents") {
    const inside = [...node.childNodes];
    return inside.some(one => one.nodeType === Node.ELEMENT_NODE ? visible(one) : one.nodeType === Node.TEXT_NODE && flat(one.data));
  }
  if (!node.checkVisibility() || style.visibility !== "visible") return false;
  const box = node.getBoundingClientRect();
  return box.width > 0 && box.height > 0;
};
// The first alternative of which something is there as it is needed; those that were tried in vain come last.
const first = ({alternatives, needed, tired}) => {
  let there = false;
  const order = [...alternatives.keys()].sort((a, b) => tired.includes(a) - tired.includes(b));
  for (const at of order) {
    for (const node of all(alternatives[at])) {
      if (needed !== "visible" || visible(node)) return {[`found${at}`]: node};
      there = true;
    }
  }
  return {[there ? "there" : "none"]: 1};
};
const deep = (wanted, given) => {
  if (wanted === given) return true;
  if (!(wanted instanceof Object) || !(given instanceof Object)) return false;
  return Object.entries(wanted).every(([key, value]) => deep(value, given[key]));
};
// How many match, of the first alternative that matches at all.
const tally = ({alternatives, seen, attributes, properties}) => {
  for (const alternative of alternatives) {
    const found = all(alternative).filter(node => (!seen || visible(node)) &&
      Object.entries(attributes || {}).every(([name, value]) => node.getAttribute(name) === value) &&
      deep(properties || {}, node));
    if (found.length) return found.length;
  }
  return 0;
};
// Whether a text is shown, in any case; or an element; or an element with the text.
const shows = ({alternatives, text}) => {
  const wanted = text === null ? "" : flat(text).toLowerCase();
  const fits = value => flat(value).toLowerCase().includes(wanted);
  if (alternatives === null) return smallest(document, fits).some(visible);
  return alternatives.some(one => all(one).some(node => visible(node) && (text === null || fits(textOf(node)))));
};
const readings = ({alternatives, most}) => {
  for (const alternative of alternatives) {
    const found = all(alternative).slice(0, most);
    if (found.length) return found.map(node => flat(textOf(node)));
  }
  return [];
};
