"""The inbox: the lake's own log, read by cursors; rules run once an event."""
