"""Offers our banks as estimators of River, one series each: cycles, forecasts with intervals, exhaustion.

Imports ``river``, ``trends`` and ``cycles``. No operator imports it: it is for users of River, with the
pipeline or without.
"""
