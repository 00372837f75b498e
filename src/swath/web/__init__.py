"""How a page is got over HTTP: transport, cookies, redirects, status classes, pages and forms."""
