/* MIG: the slices of a device. */
#include <string.h>

#include "fake.h"

enum { MAX_SLICES = 7 };

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
        if (call.gpu->mig[i].index == index)
            return call.gpu->mig[i].hidden ? TIMEOUT : handle_of_mig(&call.gpu->mig[i], handle);
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
