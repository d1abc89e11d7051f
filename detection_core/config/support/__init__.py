"""What becomes of each field of the schema: tables, and what is made of them."""
