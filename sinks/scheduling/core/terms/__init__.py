"""What counts for a score, a file each: ``term(node, need)``, None where nothing is known of it."""
