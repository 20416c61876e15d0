"""The rules over a pod's figures: bottleneck, right-sizing, advice. Pure."""
