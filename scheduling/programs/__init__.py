"""Programs of the catalogue, and descriptions of the jobs that run programs. All is pure, except `stored`."""
