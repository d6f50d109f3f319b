"""The parts that policies which sell at posted prices have in common: bounds, the market, the menu and the bookings."""
