/* GPM: performance counters of a device or of a GPU instance, as the difference of two samples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { GRAPHICS_UTIL = 1, GPM_VERSION = 1 };
static const double GPM_LEAST_S = 0.1;

/* What was counted until `t`. `uuid` is of the device or slice, `gpu` of the device. */
typedef struct {
    char uuid[MAX_TEXT], gpu[MAX_TEXT];
    double t, integrals[MAX_COUNTERS + 1];
    unsigned ids[MAX_COUNTERS + 1], count;
} GpmSample;

EXPORT unsigned nvmlGpmQueryDeviceSupport(void *device, GpmSupport *out) {
    DEVICE_CALL(device);
    if (out->version != GPM_VERSION) return ARGUMENT_VERSION_MISMATCH;
    out->supported = call.gpu->gpm.a > 0;
    return OK;
}

EXPORT unsigned nvmlGpmSampleAlloc(void **sample) {
    SYSTEM_CALL();
    *sample = calloc(1, sizeof(GpmSample));
    return OK;
}

EXPORT unsigned nvmlGpmSampleFree(void *sample) {
    SYSTEM_CALL();
    free(sample);
    return OK;
}

static unsigned take(GpmSample *out, const char *uuid, const char *gpu, double t, const Signal *util, const Counter *counters, unsigned count) {
    *out = (GpmSample){.t = t, .ids = {GRAPHICS_UTIL}, .integrals = {signal_integral(util, t)}, .count = 1};
    for (unsigned i = 0; i < count; i++) {
        out->ids[out->count] = counters[i].id;
        out->integrals[out->count++] = signal_integral(&counters[i].value, t);
    }
    copy_text(gpu, out->gpu, MAX_TEXT);
    return copy_text(uuid, out->uuid, MAX_TEXT);
}

EXPORT unsigned nvmlGpmSampleGet(void *device, GpmSample *out) {
    DEVICE_CALL(device);
    const Gpu *gpu = call.gpu;
    if (gpu->gpm.a <= 0 || gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    return take(out, gpu->uuid, gpu->uuid, call.t, &gpu->util, gpu->counters, gpu->counter_count);
}

EXPORT unsigned nvmlGpmMigSampleGet(void *device, unsigned gpu_instance, GpmSample *out) {
    DEVICE_CALL(device);
    if (call.gpu->gpm.a <= 0) return NOT_SUPPORTED;
    for (unsigned i = 0; i < call.gpu->mig_count; i++) {
        const Mig *mig = &call.gpu->mig[i];
        if (mig->gpu_instance != gpu_instance) continue;
        return take(out, mig->uuid, call.gpu->uuid, call.t, &mig->util, mig->counters, mig->counter_count);
    }
    return NOT_FOUND;
}

static unsigned answer(const GpmSample *first, const GpmSample *second, unsigned id, double t, double *value) {
    char name[MAX_TEXT];
    const Gpu *gpu = gpu_of(first->gpu);
    unsigned code;
    snprintf(name, sizeof name, "gpm:%u", id);
    if (gpu && (code = fault_code(gpu->faults, gpu->fault_count, name, t))) return code;
    for (unsigned i = 0; i < first->count && i < second->count; i++) {
        if (first->ids[i] != id || second->ids[i] != id) continue;
        if (second->t - first->t < GPM_LEAST_S) return UNKNOWN;
        *value = (second->integrals[i] - first->integrals[i]) / (second->t - first->t);
        return OK;
    }
    return NOT_SUPPORTED;
}

EXPORT unsigned nvmlGpmMetricsGet(GpmMetrics *get) {
    SYSTEM_CALL();
    const GpmSample *first = get->first, *second = get->second;
    if (get->version != GPM_VERSION) return ARGUMENT_VERSION_MISMATCH;
    if (strcmp(first->uuid, second->uuid) != 0 || second->t <= first->t) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->count; i++) {
        GpmMetric *metric = &get->metrics[i];
        metric->value = 0;
        metric->result = answer(first, second, metric->id, call.t, &metric->value);
    }
    return OK;
}
