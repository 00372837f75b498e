// What only a window shows: its size, its plugins, its graphics, and the traces that drivers leave.
const native = (thing) => Function.prototype.toString.call(thing).includes("[native code]");

function automationMark() {
  const place = Object.getOwnPropertyDescriptor(Navigator.prototype, "webdriver");
  return {
    own: Object.getOwnPropertyNames(navigator),
    getterNative: !!place && !!place.get && native(place.get),
    present: "webdriver" in navigator,
  };
}

// With a driver that has switched on the runtime domain, every argument of a console call is taken to pieces for it.
function runtimeLeak() {
  let names = 0;
  let steps = 0;
  class Watched extends Error {
    get name() { names += 1; return "Watched"; }
  }
  console.debug(new Watched("look"));
  const looked = new Proxy(Error.prototype, {
    get(target, key) { steps += 1; return Reflect.get(target, key); },
  });
  console.debug(Object.setPrototypeOf(new Error("look"), looked));
  const wide = Array.from({ length: 50 }, () => Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`k${n}`, n])));
  const began = performance.now();
  for (let turn = 0; turn < 2; turn += 1) console.table(wide);
  const tableMs = performance.now() - began;
  console.clear();
  return { names, steps, tableMs };
}

function graphics() {
  const gl = document.createElement("canvas").getContext("webgl");
  const names = gl && gl.getExtension("WEBGL_debug_renderer_info");
  return names
    ? { vendor: gl.getParameter(names.UNMASKED_VENDOR_WEBGL), renderer: gl.getParameter(names.UNMASKED_RENDERER_WEBGL) }
    : null;
}

async function windowFacts() {
  const asked = await navigator.permissions.query({ name: "notifications" });
  const traces = Object.getOwnPropertyNames(window).filter((n) => /playwright|__pw|webdriver|selenium|cdc_|puppeteer/i.test(n));
  const media = (query) => matchMedia(query).matches;
  return {
    webdriver: automationMark(),
    runtime: runtimeLeak(),
    graphics: graphics(),
    plugins: [...navigator.plugins].map((p) => p.name),
    pdfViewer: navigator.pdfViewerEnabled,
    notifications: { query: asked.state, property: window.Notification ? Notification.permission : null },
    chrome: typeof window.chrome,
    chromeKeys: window.chrome ? Object.keys(window.chrome) : [],
    chromeRuntime: typeof (window.chrome && window.chrome.runtime),
    touchPoints: navigator.maxTouchPoints,
    traces,
    patched: [
      ["permissions.query", navigator.permissions.query],
      ["serviceWorker.register", navigator.serviceWorker && navigator.serviceWorker.register],
      ["canvas.toDataURL", HTMLCanvasElement.prototype.toDataURL],
      ["console.debug", console.debug],
      ["Date.getTimezoneOffset", Date.prototype.getTimezoneOffset],
      ["attachShadow", Element.prototype.attachShadow],
    ].filter(([, thing]) => thing && !native(thing)).map(([name]) => name),
    screen: { width: screen.width, height: screen.height, availWidth: screen.availWidth, availHeight: screen.availHeight },
    inner: { width: innerWidth, height: innerHeight },
    outer: { width: outerWidth, height: outerHeight },
    scrollbar: innerWidth - document.documentElement.clientWidth,
    ratio: devicePixelRatio,
    mediaAgrees: media(`(device-width: ${screen.width}px)`) && media(`(width: ${innerWidth}px)`)
      && media(`(resolution: ${devicePixelRatio}dppx)`),
    hover: media("(hover: hover)"),
    pointer: media("(pointer: fine)"),
    dark: media("(prefers-color-scheme: dark)"),
  };
}
