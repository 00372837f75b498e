"""Gets pages: over HTTP or in a browser, through proxies, within the limits of each site."""
