"""Small frozen parts, each kind with its table: losses, links, families, averages."""
