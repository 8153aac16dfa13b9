"""What ops cost in time: measured where that was done, else predicted from operations and bytes."""
