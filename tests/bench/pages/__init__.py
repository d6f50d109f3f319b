"""A market of 500 servers, 30 tenants and 100,000 jobs, and every page of it: how large and how fast it is."""
