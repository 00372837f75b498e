"""What the chaos rigs do to running processes besides killing them, one module for each kind; all rigs share them."""
