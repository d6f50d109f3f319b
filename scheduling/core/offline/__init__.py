"""What could have been reached by somebody who knew all jobs beforehand: for performance ratios on small inputs."""
