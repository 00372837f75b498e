"""Local forward proxies on loopback, between our HTTP client or Chromium and the site or proxy provider.

`client_proxy` and `browser_proxy` are still two implementations over the shared `upstream`."""
