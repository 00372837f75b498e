"""Who may run what, and what becomes of work whose worker is gone. The grants themselves are made by the lease book."""
