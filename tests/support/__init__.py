"""What tests share: broken and honest algorithms, tiny games, the command line."""
