/* The driver's ring buffers, and the processes that it sees. */
#include <math.h>
#include <stdio.h>

#include "fake.h"

enum { TOTAL_POWER = 0, GPU_UTILIZATION = 1, MEMORY_UTILIZATION = 2 };
static const double PROCESS_BUFFER_S = 9;

static unsigned sample_value(const Gpu *gpu, unsigned type, double t) {
    double span = 1 / gpu->util_hz.a;
    if (type == TOTAL_POWER) return whole(1000 * signal_at(&gpu->power_w, t));
    return whole(signal_mean(type == GPU_UTILIZATION ? &gpu->util : &gpu->mem_util, t - span, t));
}

/* An idle GPU adds nothing to its buffers: they run dry. */
static int is_recorded(const Gpu *gpu, double t) {
    return gpu->idle_dry.a <= 0 || signal_mean(&gpu->util, t - 1, t) > 0;
}

EXPORT unsigned nvmlDeviceGetSamples(void *device, unsigned type, unsigned long long last_seen_us, unsigned *value_type,
                                     unsigned *count, Sample *out) {
    DEVICE_CALL(device);
    const Gpu *gpu = call.gpu;
    if (call.mig || type > MEMORY_UTILIZATION || (gpu->mig_mode.a > 0 && type != TOTAL_POWER)) return NOT_SUPPORTED;
    unsigned ring = whole(gpu->ring.a), written = 0;
    *value_type = VALUE_UINT;
    if (!out) {
        *count = ring;
        return OK;
    }
    double hz = type == TOTAL_POWER ? gpu->power_hz.a : gpu->util_hz.a, newest = floor(call.t * hz);
    for (double k = newest - ring + 1; k <= newest && written < *count; k++) {
        unsigned long long at = driver_us(k / hz);
        if (at <= last_seen_us || !is_recorded(gpu, k / hz)) continue;
        out[written].timestamp_us = at;
        out[written].value.ull = 0;
        out[written++].value.ui = sample_value(gpu, type, k / hz);
    }
    *count = written;
    return written ? OK : NOT_FOUND;
}

/* The newest moment after `since` at which the process was seen working, or a negative number. */
static double last_busy(const Gpu *gpu, const Process *process, double since, double t) {
    double hz = gpu->process_hz.a;
    for (double k = floor(t * hz); k / hz > fmax(since, t - PROCESS_BUFFER_S); k--) {
        double at = k / hz;
        if (at < process->from || at >= process->until) continue;
        if (whole(signal_mean(&process->util, at - 1 / hz, at)) || whole(signal_mean(&process->mem_util, at - 1 / hz, at)))
            return at;
    }
    return -1;
}

EXPORT unsigned nvmlDeviceGetProcessUtilization(void *device, ProcessUtilization *out, unsigned *count,
                                                unsigned long long last_seen_us) {
    DEVICE_CALL(device);
    const Gpu *gpu = call.gpu;
    if (call.mig || gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    if (!out || *count < gpu->process_count) {
        *count = MAX_PROCESSES;
        return INSUFFICIENT_SIZE;
    }
    unsigned written = 0;
    double since = last_seen_us ? from_driver_us(last_seen_us) + 1e-4 : -1e18, span = 1 / gpu->process_hz.a;
    for (unsigned i = 0; i < gpu->process_count; i++) {
        const Process *process = &gpu->processes[i];
        double at = last_busy(gpu, process, since, call.t);
        if (at < 0) continue;
        out[written++] = (ProcessUtilization){process->pid, driver_us(at), whole(signal_mean(&process->util, at - span, at)),
                                              whole(signal_mean(&process->mem_util, at - span, at)), 0, 0};
    }
    *count = written;
    return written ? OK : NOT_FOUND;
}

/* R535 to 535.86 write rows of version 3 with the protected memory behind, 8 bytes more than all others do. */
static unsigned version_3_bytes(void) {
    unsigned minor;
    int is_longer = sscanf(world()->driver, "535.%u", &minor) == 1 && minor >= 43 && minor <= 86;
    return sizeof(ProcessInfo) + (is_longer ? 8 : 0);
}

static unsigned running(const Call *call, int graphics, unsigned row_bytes, unsigned *count, void *out) {
    unsigned found = 0;
    for (unsigned i = 0; i < call->gpu->process_count; i++) {
        const Process *p = &call->gpu->processes[i];
        if (!(graphics ? p->graphics : p->compute) || call->t < p->from || call->t >= p->until) continue;
        if (call->mig && (p->gpu_instance != call->mig->gpu_instance || p->compute_instance != call->mig->compute_instance)) continue;
        if (out && found < *count)
            *(ProcessInfo *)((char *)out + found * row_bytes) = (ProcessInfo){p->pid, p->memory_known ? (unsigned long long)p->memory : -1ull, p->gpu_instance, p->compute_instance};
        found++;
    }
    unsigned room = out ? *count : 0;
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

EXPORT unsigned nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *out) {
    DEVICE_CALL(device);
    return running(&call, 0, version_3_bytes(), count, out);
}

EXPORT unsigned nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, void *out) {
    DEVICE_CALL(device);
    return running(&call, 1, version_3_bytes(), count, out);
}

EXPORT unsigned nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *out) {
    DEVICE_CALL(device);
    return running(&call, 0, sizeof(ProcessInfo), count, out);
}

EXPORT unsigned nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, void *out) {
    DEVICE_CALL(device);
    return running(&call, 1, sizeof(ProcessInfo), count, out);
}
