"""The desk: analysts ask questions of tables that they must not see, by mail, on a page or over a network."""
