"""Gets pages over HTTP and reads them."""
