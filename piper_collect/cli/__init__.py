"""One verb a file; heavy imports deferred."""
