"""The path of a job: accept → dispatch → execute → extract → finish. Folder order is path order."""
