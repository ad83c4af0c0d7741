"""Programs that are copied into an export and run there, without nmt. They import nothing of this package."""
