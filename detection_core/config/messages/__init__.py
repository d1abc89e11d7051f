"""What is refused of each family of messages without a tensor; builders only translate what passes."""
