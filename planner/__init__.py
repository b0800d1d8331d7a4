"""What shall happen: plans, their check, their review, and the planners that write them."""
