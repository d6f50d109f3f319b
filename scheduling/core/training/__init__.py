"""Train DL2's networks: first on a teacher's decisions as lessons, then by learning from rewards, round by round."""
