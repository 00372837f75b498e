"""The end of the path: an item's files, the manifest that balances, and the check that everything is still there."""
