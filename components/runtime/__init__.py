"""What binds the components to a backend."""
