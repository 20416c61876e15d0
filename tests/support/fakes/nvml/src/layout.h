/* NVML's public types, laid out as the Python binding (nvidia-ml-py 13) reads and writes them. */
#ifndef FAKE_NVML_LAYOUT_H
#define FAKE_NVML_LAYOUT_H

#include <stdint.h>

enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum { VALUE_UINT = 1, VALUE_ULONG = 2, VALUE_ULONG_LONG = 3, VALUE_LONG_LONG = 4 };

typedef union {
    double d;
    unsigned ui;
    unsigned long long ull;
} Value;

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned version, sensor; int temperature; } TemperatureV1;
typedef struct { unsigned version; int margin; } MarginTemperatureV1;
typedef struct { unsigned long long timestamp_us; Value value; } Sample;
typedef struct {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    unsigned value_type, result;
    Value value;
} FieldValue;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } ProcessInfo;
typedef struct {
    unsigned pid;
    unsigned long long timestamp_us;
    unsigned sm, memory, encoder, decoder;
} ProcessUtilization;
typedef struct {
    unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} Attributes;
typedef struct {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} EventData;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health_mask;
    unsigned char health_summary; /* not in version 2 */
} FabricInfo;
typedef struct { unsigned max, high, partial, low, none; } Histogram;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned id, result; double value; const char *names[3]; } GpmMetric;
typedef struct { unsigned version, count; void *first, *second; GpmMetric metrics[]; } GpmMetrics;

#endif
