"""The engine's store on PostgreSQL: records that must be scheduled and retried one by one (ADR 0013)."""
