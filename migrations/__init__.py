"""The lake's schema, one step a file; ``ingest.schema.upgrade`` runs them."""
