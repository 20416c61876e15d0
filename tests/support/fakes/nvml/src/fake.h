/* The world that the fake library shows: read from a scenario file, a function of the time since its start. */
#ifndef FAKE_NVML_FAKE_H
#define FAKE_NVML_FAKE_H

#include "layout.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_GPUS = 32, MAX_PROCESSES = 128, MAX_MIG = 16, MAX_FAULTS = 64, MAX_DELAYS = 16, MAX_EVENTS = 2048, MAX_FIELDS = 96, MAX_COUNTERS = 24, MAX_TEXT = 96 };

typedef enum { CONSTANT, SQUARE, SINE, RAMP } Shape;

/* A value over time. CONSTANT: a. SQUARE: period a, share b of it high, low c, high d.
 * SINE: period a, low b, high c. RAMP: a at the start, b more each second. */
typedef struct { Shape shape; double a, b, c, d; } Signal;

typedef struct { char function[MAX_TEXT]; unsigned code; double from, until; } Fault;

/* How long a call takes, in which the driver keeps its caller waiting. */
typedef struct { char function[MAX_TEXT]; double us; } Delay;

typedef struct {
    unsigned pid, gpu_instance, compute_instance;
    int compute, graphics, memory_known;
    double memory, from, until;
    Signal util, mem_util;
} Process;

/* One of GPM's metrics: percent, or MiB a second. */
typedef struct { unsigned id; Signal value; } Counter;

typedef struct {
    unsigned index, gpu_instance, compute_instance, slices, compute_slices, hidden;
    char uuid[MAX_TEXT], profile[MAX_TEXT];
    Signal util, mem_used, mem_total;
    Counter counters[MAX_COUNTERS];
    unsigned counter_count;
} Mig;

/* What an event set is told when its time has come. */
typedef struct { double at; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;

/* The value of one of NVML's fields; of all scopes (such as links) if `scope` is ANY_SCOPE. */
typedef struct { unsigned id, scope, value_type; Signal value; } Field;
enum { ANY_SCOPE = 0xffffffff };

typedef struct {
    char uuid[MAX_TEXT], name[MAX_TEXT], serial[MAX_TEXT], bus_id[MAX_TEXT];
    Signal util, mem_util, mem_used, mem_total, mem_reserved, power_w, power_limit_w, energy_j, temp_c, slowdown_c,
        sm_mhz, mem_mhz, pcie_rx, pcie_tx, pcie_gen, pcie_width, throttle, mem_temp_c, enc, dec, jpg, ofa;
    /* Settings, numbers too so that one table reads them all. */
    Signal energy_given, mig_mode, gpm, ecc, ecc_sram, banks_low, banks_none, persistence, compute_mode, event_types, fabric_state, fabric_health, fabric_summary, fabric_version, util_hz, power_hz, process_hz, ring, pcie_bits, idle_dry;
    Process processes[MAX_PROCESSES];
    Mig mig[MAX_MIG];
    Fault faults[MAX_FAULTS];
    Event events[MAX_EVENTS];
    Field fields[MAX_FIELDS];
    Counter counters[MAX_COUNTERS];
    unsigned counter_count;
    unsigned process_count, mig_count, fault_count, event_count, field_count;
} Gpu;

typedef struct {
    char driver[MAX_TEXT];
    int enumerate_live, clock_boot, spins;
    double start, clock_offset;
    Gpu gpus[MAX_GPUS];
    Fault faults[MAX_FAULTS];
    Delay delays[MAX_DELAYS];
    unsigned gpu_count, fault_count, delay_count;
} World;

/* signal.c */
int signal_parse(const char *text, Signal *out);
double signal_at(const Signal *signal, double t);
double signal_integral(const Signal *signal, double t);
double signal_mean(const Signal *signal, double from, double until);

/* scenario.c */
void scenario_parse(const char *path, World *world);
unsigned fault_code(const Fault *faults, unsigned count, const char *function, double t);
double delay_us(const World *world, const char *function);

/* api_health.c */
int health_field(const Gpu *gpu, double t, FieldValue *field);
unsigned field_number(const Gpu *gpu, double t, unsigned id);

/* world.c: one call at a time. `enter` takes the lock, reads a changed scenario anew, counts the call. */
typedef struct { unsigned code; const Gpu *gpu; const Mig *mig; double t; } Call;
Call enter_system(const char *function);
Call enter(const char *function, void *handle);
void leave(Call *call);
const World *world(void);
double signal_time(void);
unsigned long long driver_us(double t);
double from_driver_us(unsigned long long us);
unsigned initialize(void);
unsigned device_count(void);
unsigned handle_of_gpu(unsigned index, void **handle);
unsigned handle_of_uuid(const char *uuid, void **handle);
unsigned handle_of_mig(const Mig *mig, void **handle);
const Gpu *gpu_of(const char *uuid);
unsigned index_of_gpu(const Gpu *gpu);
unsigned shut_down(void);

#define SYSTEM_CALL() __attribute__((cleanup(leave))) Call call = enter_system(__func__); if (call.code) return call.code
#define DEVICE_CALL(handle) __attribute__((cleanup(leave))) Call call = enter(__func__, handle); if (call.code) return call.code

unsigned copy_text(const char *text, char *out, unsigned size);
unsigned whole(double value);

#endif
