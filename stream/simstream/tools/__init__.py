"""What commands do: one folder or file per tool, without options and printing."""
