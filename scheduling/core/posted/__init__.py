"""What policies that sell at posted prices have in common: bounds, the market, the menu, and the bookings."""
