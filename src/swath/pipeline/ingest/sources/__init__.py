"""Where rows come from: CSV, JSON and JSON Lines, from files, stdin and connections."""
