"""One item's tab: bounded driver calls, gated navigation, input, popups, downloads, and the page as it is stored."""
