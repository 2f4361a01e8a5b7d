"""What one does with an encoder: fine-tune, compare, diagnose, explore."""
