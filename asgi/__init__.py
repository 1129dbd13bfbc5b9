"""HTTP edge code that the collector's and the backend's doors share."""
