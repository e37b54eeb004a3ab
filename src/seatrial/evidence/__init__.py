"""What people read: page, summary and the terminal's last words. Values in, text out."""
