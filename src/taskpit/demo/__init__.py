"""What `pit demo` shows: a snake pit and its crew at work in a temporary folder, without network or model."""
