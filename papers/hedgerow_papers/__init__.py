"""The papers that Hedgerow builds on, one package for each; experiments in `ours` repeat none."""
