// The same as a service worker, which is asked by message.
importScripts("/realm.js");
const here = new URL(self.location.href).searchParams;
self.addEventListener("message", (event) => {
  event.waitUntil(realmFacts(here.get("visit"), here.get("realm")).then((facts) => event.ports[0].postMessage(facts)));
});
