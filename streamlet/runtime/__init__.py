"""The machinery that runs a declared app: task, commit, restore, worker loop."""
