"""The engine of a Slurm cluster. Each generation of a gang is a Slurm job on each of its servers, with a launcher in
it."""
