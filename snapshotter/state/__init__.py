"""What outlives a process: small files beside the checkpoint, and who may write them."""
