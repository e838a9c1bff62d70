"""`serve`: one supervised family of processes. The roles are web, worker and ticker."""
