"""What can happen: tools, their contracts, and the JSON Schemas that guard them."""
