"""A stand-in Evolution gateway: invented people talk, and what it emits is sent, repeated and reordered."""
