"""What a buyer is asked to pay: sessions, products, coupons, links and how the page looks."""
