/* What one device says of itself: names, memory, power, temperature, clocks, the PCIe link. */
#include <stdio.h>
#include <time.h>

#include "fake.h"

enum { MEMORY_V2 = 0x02000028, TEMPERATURE_V1 = 0x100000C, MARGIN_V1 = 0x1000008, SLOWDOWN = 1, CLOCK_SM = 1, CLOCK_MEMORY = 2, PCIE_TX = 0, PCIE_RX = 1 };
enum { FIELD_MEMORY_TEMP = 82, FIELD_ENERGY = 83, FIELD_POWER_AVERAGE = 185, FIELD_POWER_INSTANT = 186, FIELD_PCIE_TX = 197, FIELD_PCIE_RX = 198, LAST_FIELD = 500 };

static double energy_mj(const Gpu *gpu, double t) {
    double joules = gpu->energy_given.a > 0 ? signal_at(&gpu->energy_j, t) : 1000 + signal_integral(&gpu->power_w, t);
    return joules * 1000;
}

EXPORT unsigned nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
    DEVICE_CALL(device);
    return copy_text(call.mig ? call.mig->uuid : call.gpu->uuid, out, size);
}

EXPORT unsigned nvmlDeviceGetIndex(void *device, unsigned *index) {
    DEVICE_CALL(device);
    *index = call.mig ? call.mig->index : index_of_gpu(call.gpu);
    return OK;
}

EXPORT unsigned nvmlDeviceGetName(void *device, char *out, unsigned size) {
    DEVICE_CALL(device);
    if (!call.mig || !call.mig->profile[0]) return copy_text(call.gpu->name, out, size);
    int length = snprintf(out, size, "%s MIG %s", call.gpu->name, call.mig->profile);
    return length < (int)size ? OK : INSUFFICIENT_SIZE;
}

EXPORT unsigned nvmlDeviceGetUtilizationRates(void *device, Utilization *out) {
    DEVICE_CALL(device);
    if (call.mig || call.gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    double span = 1 / call.gpu->util_hz.a;
    out->gpu = whole(signal_mean(&call.gpu->util, call.t - span, call.t));
    out->memory = whole(signal_mean(&call.gpu->mem_util, call.t - span, call.t));
    return OK;
}

/* Of a video engine, with the period that it is a mean of. */
static unsigned codec(const Call *call, const Signal *signal, unsigned *util, unsigned *period_us) {
    if (call->mig || call->gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    double span = 1 / call->gpu->util_hz.a;
    *util = whole(signal_mean(signal, call->t - span, call->t));
    *period_us = (unsigned)(span * 1e6);
    return OK;
}

EXPORT unsigned nvmlDeviceGetEncoderUtilization(void *device, unsigned *util, unsigned *period_us) {
    DEVICE_CALL(device);
    return codec(&call, &call.gpu->enc, util, period_us);
}

EXPORT unsigned nvmlDeviceGetDecoderUtilization(void *device, unsigned *util, unsigned *period_us) {
    DEVICE_CALL(device);
    return codec(&call, &call.gpu->dec, util, period_us);
}

EXPORT unsigned nvmlDeviceGetJpgUtilization(void *device, unsigned *util, unsigned *period_us) {
    DEVICE_CALL(device);
    return codec(&call, &call.gpu->jpg, util, period_us);
}

EXPORT unsigned nvmlDeviceGetOfaUtilization(void *device, unsigned *util, unsigned *period_us) {
    DEVICE_CALL(device);
    return codec(&call, &call.gpu->ofa, util, period_us);
}

EXPORT unsigned nvmlDeviceGetMemoryInfo(void *device, Memory *out) {
    DEVICE_CALL(device);
    double reserved = call.mig ? 0 : signal_at(&call.gpu->mem_reserved, call.t);
    out->total = (unsigned long long)signal_at(call.mig ? &call.mig->mem_total : &call.gpu->mem_total, call.t);
    out->used = (unsigned long long)(signal_at(call.mig ? &call.mig->mem_used : &call.gpu->mem_used, call.t) + reserved);
    out->free = out->total - out->used;
    return OK;
}

EXPORT unsigned nvmlDeviceGetMemoryInfo_v2(void *device, MemoryV2 *out) {
    DEVICE_CALL(device);
    if (out->version != MEMORY_V2) return ARGUMENT_VERSION_MISMATCH;
    out->reserved = call.mig ? 0 : (unsigned long long)signal_at(&call.gpu->mem_reserved, call.t);
    out->total = (unsigned long long)signal_at(call.mig ? &call.mig->mem_total : &call.gpu->mem_total, call.t);
    out->used = (unsigned long long)signal_at(call.mig ? &call.mig->mem_used : &call.gpu->mem_used, call.t);
    out->free = out->total - out->used - out->reserved;
    return OK;
}

EXPORT unsigned nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    DEVICE_CALL(device);
    *milliwatts = whole(1000 * signal_mean(&call.gpu->power_w, call.t - 1, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
    DEVICE_CALL(device);
    *milliwatts = whole(1000 * signal_at(&call.gpu->power_limit_w, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    DEVICE_CALL(device);
    *millijoules = (unsigned long long)energy_mj(call.gpu, call.t);
    return OK;
}

EXPORT unsigned nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) {
    DEVICE_CALL(device);
    if (sensor) return INVALID_ARGUMENT;
    *celsius = whole(signal_at(&call.gpu->temp_c, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetTemperatureV(void *device, TemperatureV1 *out) {
    DEVICE_CALL(device);
    if (out->version != TEMPERATURE_V1) return ARGUMENT_VERSION_MISMATCH;
    out->temperature = (int)signal_at(&call.gpu->temp_c, call.t);
    return OK;
}

EXPORT unsigned nvmlDeviceGetTemperatureThreshold(void *device, unsigned threshold, unsigned *celsius) {
    DEVICE_CALL(device);
    if (threshold != SLOWDOWN) return NOT_SUPPORTED;
    *celsius = whole(call.gpu->slowdown_c.a);
    return OK;
}

EXPORT unsigned nvmlDeviceGetMarginTemperature(void *device, MarginTemperatureV1 *out) {
    DEVICE_CALL(device);
    if (out->version != MARGIN_V1) return ARGUMENT_VERSION_MISMATCH;
    out->margin = (int)(call.gpu->slowdown_c.a - signal_at(&call.gpu->temp_c, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *megahertz) {
    DEVICE_CALL(device);
    if (kind != CLOCK_SM && kind != CLOCK_MEMORY) return INVALID_ARGUMENT;
    *megahertz = whole(signal_at(kind == CLOCK_SM ? &call.gpu->sm_mhz : &call.gpu->mem_mhz, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation) {
    DEVICE_CALL(device);
    *generation = whole(call.gpu->pcie_gen.a);
    return OK;
}

EXPORT unsigned nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes) {
    DEVICE_CALL(device);
    *lanes = whole(call.gpu->pcie_width.a);
    return OK;
}

EXPORT unsigned nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *mask) {
    DEVICE_CALL(device);
    *mask = (unsigned long long)signal_at(&call.gpu->throttle, call.t);
    return OK;
}

EXPORT unsigned nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask) {
    DEVICE_CALL(device);
    *mask = (unsigned long long)signal_at(&call.gpu->throttle, call.t);
    return OK;
}

/* The real one looks at the bus for 20 ms, and blocks for as long. */
EXPORT unsigned nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *kilobytes_per_s) {
    DEVICE_CALL(device);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    *kilobytes_per_s = whole(signal_at(counter == PCIE_TX ? &call.gpu->pcie_tx : &call.gpu->pcie_rx, call.t) / 1000);
    return OK;
}

static void read_field(const Gpu *gpu, double t, FieldValue *field) {
    char name[MAX_TEXT];
    snprintf(name, sizeof name, "field:%u", field->id);
    field->timestamp_us = (long long)driver_us(t);
    field->result = fault_code(gpu->faults, gpu->fault_count, name, t);
    if (field->result) return;
    if (health_field(gpu, t, field)) return;
    field->value_type = VALUE_ULONG_LONG;
    if (field->id == FIELD_ENERGY) field->value.ull = (unsigned long long)energy_mj(gpu, t);
    else if (field->id == FIELD_PCIE_TX) field->value.ull = (unsigned long long)signal_integral(&gpu->pcie_tx, t);
    else if (field->id == FIELD_PCIE_RX) field->value.ull = (unsigned long long)signal_integral(&gpu->pcie_rx, t);
    else if (field->id == FIELD_POWER_INSTANT || field->id == FIELD_POWER_AVERAGE) {
        field->value_type = VALUE_UINT;
        double from = field->id == FIELD_POWER_AVERAGE ? t - 1 : t;
        field->value.ui = whole(1000 * (from < t ? signal_mean(&gpu->power_w, from, t) : signal_at(&gpu->power_w, t)));
    } else if (field->id == FIELD_MEMORY_TEMP) {
        field->value_type = VALUE_UINT;
        field->value.ui = whole(signal_at(&gpu->mem_temp_c, t));
    } else field->result = field->id < LAST_FIELD ? NOT_SUPPORTED : INVALID_ARGUMENT;
    if (field->value_type == VALUE_ULONG_LONG && gpu->pcie_bits.a < 64 && field->id >= FIELD_PCIE_TX) {
        field->value_type = VALUE_UINT;
        field->value.ull &= 0xffffffffu;
    }
}

EXPORT unsigned nvmlDeviceGetFieldValues(void *device, int count, FieldValue *fields) {
    DEVICE_CALL(device);
    for (int i = 0; i < count; i++) read_field(call.gpu, call.t, &fields[i]);
    return OK;
}
