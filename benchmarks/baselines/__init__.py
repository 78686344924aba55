"""What recall is compared with."""
