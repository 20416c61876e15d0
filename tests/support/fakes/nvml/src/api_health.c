/* What a device says of its health: counters by field, remapped rows, the fabric, and what it is. */
#include <stdio.h>
#include <string.h>

#include "fake.h"

enum { UNCORRECTED = 1, AGGREGATE = 1, DRAM = 2, SRAM = 7, BANKS = 3072 };
enum { FABRIC_V2 = 0x02000024, FABRIC_V3 = 0x03000028, NO_FABRIC = 0, LINK_STATE = 165, LINKS = 91 };

/* An H200 in order: what it has no counter of is NOT_SUPPORTED. */
static const Field HEALTHY[] = {
    {3, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}}, {4, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}},
    {5, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}}, {6, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}},
    {94, ANY_SCOPE, VALUE_UINT, {.a = 0}}, {142, ANY_SCOPE, VALUE_UINT, {.a = 0}}, {143, ANY_SCOPE, VALUE_UINT, {.a = 0}},
    {144, ANY_SCOPE, VALUE_UINT, {.a = 0}}, {145, ANY_SCOPE, VALUE_UINT, {.a = 0}}, {230, ANY_SCOPE, VALUE_UINT, {.a = 0}},
    {74, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}}, {269, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}},
    {270, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}}, {271, ANY_SCOPE, VALUE_ULONG_LONG, {.a = 0}},
    {LINKS, ANY_SCOPE, VALUE_UINT, {.a = 18}}, {LINK_STATE, ANY_SCOPE, VALUE_UINT, {.a = 1}},
};

static const Field *field_of(const Field *fields, unsigned count, unsigned id, unsigned scope) {
    const Field *found = NULL;
    for (unsigned i = 0; i < count; i++)
        if (fields[i].id == id && (fields[i].scope == scope || (fields[i].scope == ANY_SCOPE && !found))) found = &fields[i];
    return found;
}

static const Field *field_at(const Gpu *gpu, unsigned id, unsigned scope) {
    const Field *own = field_of(gpu->fields, gpu->field_count, id, scope);
    return own ? own : field_of(HEALTHY, sizeof HEALTHY / sizeof *HEALTHY, id, scope);
}

/* Whether there is such a field; then its value is in `field`. */
int health_field(const Gpu *gpu, double t, FieldValue *field) {
    const Field *found = field_at(gpu, field->id, field->scope);
    if (!found) return 0;
    double value = signal_at(&found->value, t);
    field->value_type = found->value_type;
    field->value.ull = 0;
    if (found->value_type == 0) field->value.d = value;
    else if (found->value_type == VALUE_UINT) field->value.ui = whole(value);
    else if (found->value_type == VALUE_LONG_LONG) field->value.ull = (unsigned long long)(long long)value;
    else field->value.ull = value > 0 ? (unsigned long long)(value + 0.5) : 0;
    return 1;
}

unsigned field_number(const Gpu *gpu, double t, unsigned id) {
    const Field *found = field_at(gpu, id, ANY_SCOPE);
    return found ? whole(signal_at(&found->value, t)) : 0;
}

EXPORT unsigned nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    DEVICE_CALL(device);
    if (call.mig || call.gpu->mig_mode.a > 0) return NOT_SUPPORTED;
    unsigned *out[] = {corrected, uncorrected, pending, failed};
    for (unsigned i = 0; i < 4; i++) *out[i] = field_number(call.gpu, call.t, 142 + i);
    return OK;
}

EXPORT unsigned nvmlDeviceGetGpuFabricInfoV(void *device, FabricInfo *out) {
    DEVICE_CALL(device);
    if (out->version != FABRIC_V2 && (out->version != FABRIC_V3 || call.gpu->fabric_version.a < 3)) return ARGUMENT_VERSION_MISMATCH;
    if (signal_at(&call.gpu->fabric_state, call.t) == NO_FABRIC) return NOT_SUPPORTED;
    memset(out->cluster, 0, sizeof out->cluster);
    out->status = OK;
    out->clique = 0;
    out->state = whole(signal_at(&call.gpu->fabric_state, call.t));
    out->health_mask = whole(signal_at(&call.gpu->fabric_health, call.t));
    if (out->version == FABRIC_V3) out->health_summary = (unsigned char)whole(signal_at(&call.gpu->fabric_summary, call.t));
    return OK;
}

EXPORT unsigned nvmlDeviceGetSerial(void *device, char *out, unsigned size) {
    DEVICE_CALL(device);
    return copy_text(call.gpu->serial, out, size);
}

EXPORT unsigned nvmlDeviceGetPciInfo_v3(void *device, PciInfo *out) {
    DEVICE_CALL(device);
    memset(out, 0, sizeof *out);
    return copy_text(call.gpu->bus_id, out->bus_id, sizeof out->bus_id);
}

EXPORT unsigned nvmlDeviceGetEccMode(void *device, unsigned *current, unsigned *pending) {
    DEVICE_CALL(device);
    *current = *pending = call.gpu->ecc.a > 0;
    return OK;
}

EXPORT unsigned nvmlDeviceGetComputeMode(void *device, unsigned *mode) {
    DEVICE_CALL(device);
    *mode = whole(signal_at(&call.gpu->compute_mode, call.t));
    return OK;
}

/* Of all banks of an H200, also in MIG mode. */
EXPORT unsigned nvmlDeviceGetRowRemapperHistogram(void *device, Histogram *out) {
    DEVICE_CALL(device);
    out->low = whole(signal_at(&call.gpu->banks_low, call.t));
    out->none = whole(signal_at(&call.gpu->banks_none, call.t));
    out->high = out->partial = 0;
    out->max = BANKS - out->low - out->none;
    return OK;
}

/* Uncorrected ones by location; what fields 4 and 6 count in all. */
EXPORT unsigned nvmlDeviceGetMemoryErrorCounter(void *device, unsigned type, unsigned counter, unsigned location, unsigned long long *out) {
    DEVICE_CALL(device);
    if (call.gpu->ecc.a <= 0 || (location != DRAM && location != SRAM)) return NOT_SUPPORTED;
    if (type != UNCORRECTED || counter > AGGREGATE) return INVALID_ARGUMENT;
    unsigned all = field_number(call.gpu, call.t, counter == AGGREGATE ? 6 : 4);
    unsigned sram = whole(signal_at(&call.gpu->ecc_sram, call.t));
    if (sram > all) sram = all;
    *out = location == SRAM ? sram : all - sram;
    return OK;
}

EXPORT unsigned nvmlDeviceGetPersistenceMode(void *device, unsigned *mode) {
    DEVICE_CALL(device);
    *mode = call.gpu->persistence.a > 0;
    return OK;
}
