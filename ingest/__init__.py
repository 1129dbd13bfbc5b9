"""The backend: signed doors, a group-commit writer and the lake's tables."""
