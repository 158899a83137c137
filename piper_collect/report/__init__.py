"""What people look at: tables, contact sheets, plots."""
