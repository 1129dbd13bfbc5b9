"""The direct door: gateways without a collector post here with a token of their own."""
