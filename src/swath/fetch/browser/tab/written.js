// A page as text: as outerHTML writes it, and open shadow roots as templates, which outerHTML passes over. `live`: with
// what stands in its fields now, but for passwords and files.
function written(root, live, most) {
  const whole = element => {
    if (element.shadowRoot) return true;
    for (const inner of element.querySelectorAll("*")) if (inner.shadowRoot) return true;
    return false;
  };
  const fields = () => root.querySelector("input, textarea, select") !== null;
  if (!whole(root) && !(live && fields())) return root.outerHTML;
  const HTML = "http://www.w3.org/1999/xhtml";
  const VOID = new Set(("area base basefont bgsound br col embed frame hr img input keygen link meta param source track " +
    "wbr").split(" "));
  const RAW = new Set("style script xmp iframe noembed noframes plaintext noscript".split(" "));
  const text = value => value.replace(/&/g, "&amp;").replace(/\u00a0/g, "&nbsp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const quoted = value => value.replace(/&/g, "&amp;").replace(/\u00a0/g, "&nbsp;").replace(/"/g, "&quot;");
  const pieces = [];
  let length = 0;
  const put = piece => { pieces.push(piece); length += piece.length; };
  const attributes = element => {
    const found = new Map([...element.attributes].map(one => [one.name, one.value]));
    if (!live || element.namespaceURI !== HTML) return found;
    const flag = (name, on) => { if (on) found.set(name, found.get(name) || ""); else found.delete(name); };
    if (element.localName === "option") flag("selected", element.selected);
    if (element.localName === "input") {
      if (element.type === "checkbox" || element.type === "radio") flag("checked", element.checked);
      else if (element.type !== "password" && element.type !== "file") {
        if (element.value !== "" || found.has("value")) found.set("value", element.value);
      }
    }
    return found;
  };
  const opening = element => {
    const name = element.namespaceURI === HTML ? element.localName : element.tagName;
    put("<" + name);
    for (const [key, value] of attributes(element)) put(` ${key}="${quoted(value)}"`);
    put(">");
    return name;
  };
  // What is still to be written, the next last: nodes, and the ends of those that were begun. No recursion: pages may be
  // deeper than a stack.
  const rest = [root];
  const later = nodes => { for (let at = nodes.length - 1; at >= 0; at--) rest.push(nodes[at]); };
  while (rest.length && length <= most) {
    const node = rest.pop();
    if (typeof node === "string") put(node);
    else if (node.nodeType === Node.TEXT_NODE) {
      const inside = node.parentNode;
      put(inside && inside.namespaceURI === HTML && RAW.has(inside.localName) ? node.data : text(node.data));
    } else if (node.nodeType === Node.COMMENT_NODE) put(`<!--${node.data}-->`);
    else if (node.nodeType === Node.ELEMENT_NODE) {
      const name = opening(node);
      if (node.namespaceURI === HTML && VOID.has(name)) continue;
      rest.push(`</${name}>`);
      if (live && name === "textarea" && node.namespaceURI === HTML) put(text("\n" + node.value));
      else later((node instanceof HTMLTemplateElement ? node.content : node).childNodes);
      if (node.shadowRoot) {
        rest.push("</template>");
        later(node.shadowRoot.childNodes);
        rest.push('<template shadowrootmode="open">');
      }
    }
  }
  return pieces.join("");
}
