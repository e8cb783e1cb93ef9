"""Who owns a task: membership, plans, handover and failure."""
