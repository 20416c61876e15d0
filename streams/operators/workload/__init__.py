"""What a pod or job does and what holds it back, from its last minutes. Pure."""
