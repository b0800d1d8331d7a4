"""What people see: the command line, the live view, reports."""
