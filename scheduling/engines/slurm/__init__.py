"""The engine of a Slurm cluster: each generation of a gang is a Slurm job on each server, with a launcher inside."""
