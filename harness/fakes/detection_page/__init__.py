"""A page that looks for signs of browser automation, and describes each one in words.

Tests open it in a browser; `site` serves it, and `judge` evaluates what it reported. Loopback only."""
