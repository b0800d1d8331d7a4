"""What may happen: arithmetic on plain values; knows no tool, no plan, no clock."""
