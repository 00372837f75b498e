"""How results are stored: files, WARC records, packs and manifests, written and read."""
