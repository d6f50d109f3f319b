"""Training DL2's networks: lessons from a teacher's decisions, then learning from rewards, round by round."""
