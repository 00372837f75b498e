"""Ways out: providers and lists of proxies, who of them is well, and when a dearer kind is taken."""
