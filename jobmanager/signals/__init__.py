"""What goes out of the server by itself: webhooks, traces and lineage events."""
