"""How people and programs reach Swath."""
