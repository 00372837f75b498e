// Gathers what every place sees once the button is pressed, and sends it to the server, which judges.
const visit = new URL(location.href).searchParams.get("visit");
const elsewhere = new URL(location.href).searchParams.get("elsewhere");
const within = (promise) => Promise.race([
  promise.catch((error) => ({ error: String(error) })),
  new Promise((done) => setTimeout(() => done({ error: "no answer within 8 s" }), 8000)),
]);

function child(realm, place) {
  return new Promise((done) => {
    addEventListener("message", (event) => event.data.realm === realm && done(event.data.facts));
    place(`/child?visit=${visit}&realm=${realm}`);
  });
}

const frame = (origin) => (path) => {
  const made = document.createElement("iframe");
  made.src = origin + path;
  document.body.append(made);
};

const answer = (port, wake) => new Promise((done, failed) => {
  port.onmessage = (event) => (event.data.error ? failed(event.data.error) : done(event.data));
  wake();
});

function worker() {
  const made = new Worker(`/worker.js?visit=${visit}&realm=worker`);
  return answer(made, () => undefined);
}

function sharedWorker() {
  const made = new SharedWorker(`/worker.js?visit=${visit}&realm=shared`);
  return answer(made.port, () => made.port.start());
}

async function serviceWorker() {
  const made = await navigator.serviceWorker.register(`/service.js?visit=${visit}&realm=service`, { scope: "/nowhere/" });
  if (!made) throw new Error("not registered");
  const line = new MessageChannel();
  return answer(line.port1, () => (made.installing || made.waiting || made.active).postMessage(0, [line.port2]));
}

async function look() {
  let popup = null;
  const opened = within(child("popup", (path) => { popup = window.open(path); }));
  const realms = { window: await within(realmFacts(visit, "window")) };
  realms.popup = await opened;
  if (popup) popup.close();
  realms.frame = await within(child("frame", frame("")));
  realms.elsewhere = await within(child("elsewhere", frame(elsewhere)));
  realms.worker = await within(worker());
  realms.shared = await within(sharedWorker());
  realms.service = await within(serviceWorker());
  const facts = { realms, window: await within(windowFacts()) };
  await fetch(`/report?visit=${visit}`, { method: "POST", body: JSON.stringify(facts) });
}

document.getElementById("start").addEventListener("click", look);
if (new URL(location.href).searchParams.has("itself")) look();
