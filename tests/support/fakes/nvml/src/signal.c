/* Values over time, and their integrals: what a driver's counters and averages are made of. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake.h"

int signal_parse(const char *text, Signal *out) {
    Signal s = {CONSTANT, 0, 0, 0, 0};
    char *end;
    if (sscanf(text, "square(%lf,%lf,%lf,%lf)", &s.a, &s.b, &s.c, &s.d) == 4) s.shape = SQUARE;
    else if (sscanf(text, "sine(%lf,%lf,%lf)", &s.a, &s.b, &s.c) == 3) s.shape = SINE;
    else if (sscanf(text, "ramp(%lf,%lf)", &s.a, &s.b) == 2) s.shape = RAMP;
    else {
        s.a = strtod(text, &end);
        if (end == text || *end) return 0;
    }
    if ((s.shape == SQUARE || s.shape == SINE) && s.a <= 0) return 0;
    *out = s;
    return 1;
}

double signal_at(const Signal *s, double t) {
    switch (s->shape) {
    case SQUARE: return t - s->a * floor(t / s->a) < s->a * s->b ? s->d : s->c;
    case SINE: return (s->b + s->c) / 2 + (s->c - s->b) / 2 * sin(2 * M_PI * t / s->a);
    case RAMP: return s->a + s->b * t;
    default: return s->a;
    }
}

static double square_integral(const Signal *s, double t) {
    double periods = floor(t / s->a), rest = t - periods * s->a, high = s->a * s->b;
    double whole_periods = periods * (high * s->d + (s->a - high) * s->c);
    return whole_periods + fmin(rest, high) * s->d + fmax(0, rest - high) * s->c;
}

double signal_integral(const Signal *s, double t) {
    switch (s->shape) {
    case SQUARE: return square_integral(s, t);
    case SINE: return (s->b + s->c) / 2 * t + (s->c - s->b) / 2 * s->a / (2 * M_PI) * (1 - cos(2 * M_PI * t / s->a));
    case RAMP: return s->a * t + s->b * t * t / 2;
    default: return s->a * t;
    }
}

double signal_mean(const Signal *s, double from, double until) {
    return (signal_integral(s, until) - signal_integral(s, from)) / (until - from);
}
