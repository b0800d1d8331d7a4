"""What has run is run again: on its own record, compared with it, or onwards from one of its steps."""
