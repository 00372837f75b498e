// Runs as a worker of its own and as a shared one.
importScripts("/realm.js");
const here = new URL(self.location.href).searchParams;
const tell = async (port) => {
  try {
    port.postMessage(await realmFacts(here.get("visit"), here.get("realm")));
  } catch (error) {
    port.postMessage({ error: String(error) });
  }
};
if (typeof SharedWorkerGlobalScope !== "undefined" && self instanceof SharedWorkerGlobalScope) {
  self.onconnect = (event) => tell(event.ports[0]);
} else {
  tell(self);
}
