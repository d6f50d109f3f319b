"""A market of 500 servers, 30 tenants and 100,000 jobs, and every page of it: how large it is, and how soon it is
shown."""
