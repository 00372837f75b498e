"""The session: what `fetch` drives. Acting on a page, its documents and their gate, windows, files and pictures."""
