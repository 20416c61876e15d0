/* MIG: the slices of a device, and GPM, the only way to their utilization. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MAX_SLICES = 7, GRAPHICS_UTIL = 1, GPM_VERSION = 1 };
static const double GPM_LEAST_S = 0.1;

typedef struct { char uuid[MAX_TEXT]; double t, busy; } GpmSample;

EXPORT unsigned nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    DEVICE_CALL(device);
    *current = *pending = call.gpu->mig_mode.a > 0;
    return OK;
}

EXPORT unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    DEVICE_CALL(device);
    *count = MAX_SLICES;
    return OK;
}

EXPORT unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **handle) {
    DEVICE_CALL(device);
    for (unsigned i = 0; i < call.gpu->mig_count; i++)
        if (call.gpu->mig[i].index == index) return handle_of_mig(&call.gpu->mig[i], handle);
    return NOT_FOUND;
}

EXPORT unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *id) {
    DEVICE_CALL(device);
    if (!call.mig) return INVALID_ARGUMENT;
    *id = call.mig->gpu_instance;
    return OK;
}

EXPORT unsigned nvmlDeviceGetComputeInstanceId(void *device, unsigned *id) {
    DEVICE_CALL(device);
    if (!call.mig) return INVALID_ARGUMENT;
    *id = call.mig->compute_instance;
    return OK;
}

EXPORT unsigned nvmlDeviceGetAttributes_v2(void *device, Attributes *out) {
    DEVICE_CALL(device);
    if (!call.mig) return INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->gpu_slices = call.mig->slices;
    out->compute_slices = call.mig->compute_slices;
    out->memory_mb = (unsigned long long)(signal_at(&call.mig->mem_total, call.t) / (1 << 20));
    return OK;
}

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

EXPORT unsigned nvmlGpmSampleGet(void *device, GpmSample *out) {
    DEVICE_CALL(device);
    if (call.gpu->gpm.a <= 0 || call.gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    *out = (GpmSample){.t = call.t, .busy = signal_integral(&call.gpu->util, call.t)};
    return copy_text(call.gpu->uuid, out->uuid, MAX_TEXT);
}

EXPORT unsigned nvmlGpmMigSampleGet(void *device, unsigned gpu_instance, GpmSample *out) {
    DEVICE_CALL(device);
    if (call.gpu->gpm.a <= 0) return NOT_SUPPORTED;
    for (unsigned i = 0; i < call.gpu->mig_count; i++) {
        const Mig *mig = &call.gpu->mig[i];
        if (mig->gpu_instance != gpu_instance) continue;
        *out = (GpmSample){.t = call.t, .busy = signal_integral(&mig->util, call.t)};
        return copy_text(mig->uuid, out->uuid, MAX_TEXT);
    }
    return NOT_FOUND;
}

EXPORT unsigned nvmlGpmMetricsGet(GpmMetrics *get) {
    SYSTEM_CALL();
    const GpmSample *first = get->first, *second = get->second;
    if (get->version != GPM_VERSION) return ARGUMENT_VERSION_MISMATCH;
    if (strcmp(first->uuid, second->uuid) != 0 || second->t <= first->t) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->count; i++) {
        GpmMetric *metric = &get->metrics[i];
        metric->result = metric->id != GRAPHICS_UTIL ? NOT_SUPPORTED : second->t - first->t < GPM_LEAST_S ? UNKNOWN : OK;
        metric->value = metric->result ? 0 : (second->busy - first->busy) / (second->t - first->t);
    }
    return OK;
}
