"""Running handlers: the worker, its hands, and the gate a suspect goes through alone."""
