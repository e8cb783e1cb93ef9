"""What `streamlet doctor` looks at: the machine, the settings and the brokers, each finding with its fix."""
