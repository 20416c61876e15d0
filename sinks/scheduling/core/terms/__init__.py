"""What counts for a score, a file each: ``term(nodes, need)``, None where it does not concern the pod."""
