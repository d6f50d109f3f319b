"""The engine of a Slurm cluster: a job of it for each generation and server of a gang, with a launcher inside."""
