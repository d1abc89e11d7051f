"""From configuration messages to built parts."""
