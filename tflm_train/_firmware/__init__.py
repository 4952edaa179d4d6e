"""Firmware: sources, images, emulators, the protocol, memory and time plans."""
