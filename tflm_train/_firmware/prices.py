PRICES = {}
