// What a script sees of the browser in the place where it runs: a window, a frame, a popup or a worker.
async function realmFacts(visit, realm) {
  const data = navigator.userAgentData;
  const wanted = ["architecture", "bitness", "fullVersionList", "model", "platformVersion", "uaFullVersion"];
  const high = data ? await data.getHighEntropyValues(wanted) : null;
  const dates = Intl.DateTimeFormat().resolvedOptions();
  const offset = (month) => new Date(2026, month, 15, 12).getTimezoneOffset();
  const shown = (month) => {
    const noon = new Date(Date.UTC(2026, month, 15, 12));
    const there = new Date(noon.toLocaleString("en-US", { timeZone: dates.timeZone }));
    const utc = new Date(noon.toLocaleString("en-US", { timeZone: "UTC" }));
    return Math.round((utc - there) / 60000);
  };
  const echoed = await fetch(`/echo?visit=${visit}&realm=${realm}`);
  return {
    userAgent: navigator.userAgent,
    platform: navigator.platform,
    language: navigator.language,
    languages: [...navigator.languages],
    cores: navigator.hardwareConcurrency,
    webdriver: navigator.webdriver === undefined ? null : navigator.webdriver,
    brands: data ? data.brands.map((b) => [b.brand, b.version]) : null,
    mobile: data ? data.mobile : null,
    hintPlatform: data ? data.platform : null,
    high: high && {
      architecture: high.architecture, bitness: high.bitness, model: high.model,
      platformVersion: high.platformVersion, fullVersion: high.uaFullVersion,
      fullVersions: (high.fullVersionList || []).map((b) => [b.brand, b.version]),
    },
    timezone: dates.timeZone,
    intlLocale: dates.locale,
    offsets: [offset(0), offset(6)],
    intlOffsets: [shown(0), shown(6)],
    headers: await echoed.json(),
  };
}
