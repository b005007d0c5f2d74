"""The pages of a deployment as HTML: of a study at its server, and of one client."""
