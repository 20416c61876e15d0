/* The state behind every call: the scenario as last read, what was enumerated, and who holds which handle. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "fake.h"

enum { MAX_HANDLES = 256, MAX_FUNCTIONS = 128 };

/* A handle is the address of a slot, and a slot is a device for ever: one that is gone answers so. */
typedef struct { char uuid[MAX_TEXT]; int is_mig; } Slot;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while a call takes its time: calls to one device wait for each other, those to others do not. */
static pthread_mutex_t g_busy[MAX_HANDLES] = {[0 ... MAX_HANDLES - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t g_system_busy = PTHREAD_MUTEX_INITIALIZER;
static World g_world;
static struct timespec g_read_at;
static double g_loaded_at;
static int g_references;
static Slot g_slots[MAX_HANDLES];
static unsigned g_slot_count;
static char g_enumerated[MAX_GPUS][MAX_TEXT];
static unsigned g_enumerated_count;
static struct { char name[MAX_TEXT]; unsigned count; } g_calls[MAX_FUNCTIONS];
static unsigned g_function_count;

static double now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static double g_boot_shift;

__attribute__((constructor)) static void loaded(void) {
    g_loaded_at = now(CLOCK_REALTIME);
    /* Once: read again at each call it would differ by the time between its two reads, and so would a stamp. */
    g_boot_shift = now(CLOCK_BOOTTIME) - g_loaded_at;
}

unsigned copy_text(const char *text, char *out, unsigned size) {
    if (!text || strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

unsigned whole(double value) { return value <= 0 ? 0 : (unsigned)(value + 0.5); }

const World *world(void) { return &g_world; }

double signal_time(void) { return now(CLOCK_REALTIME) - (g_world.start > 0 ? g_world.start : g_loaded_at); }

static double clock_shift(void) {
    return g_world.clock_boot ? g_boot_shift : g_world.clock_offset;
}

unsigned long long driver_us(double t) {
    return (unsigned long long)((t + (g_world.start > 0 ? g_world.start : g_loaded_at) + clock_shift()) * 1e6);
}

double from_driver_us(unsigned long long us) {
    return (double)us / 1e6 - clock_shift() - (g_world.start > 0 ? g_world.start : g_loaded_at);
}

static void read_scenario(void) {
    const char *path = getenv("FAKE_NVML_SCENARIO");
    struct stat status;
    if (!path || stat(path, &status) != 0) {
        fprintf(stderr, "FAKE_NVML_SCENARIO names no scenario file: %s\n", path ? path : "(not set)");
        abort();
    }
    if (memcmp(&status.st_mtim, &g_read_at, sizeof g_read_at) == 0) return;
    g_read_at = status.st_mtim;
    memset(&g_world, 0, sizeof g_world);
    strcpy(g_world.driver, "570.86.15");
    scenario_parse(path, &g_world);
}

static void count_call(const char *function) {
    unsigned i = 0;
    while (i < g_function_count && strcmp(g_calls[i].name, function) != 0) i++;
    if (i == g_function_count && i < MAX_FUNCTIONS) copy_text(function, g_calls[g_function_count++].name, MAX_TEXT);
    g_calls[i].count++;
}

/* For tests: how often a function was called in this process. */
EXPORT unsigned fakeNvmlCalls(const char *function) {
    unsigned count = 0;
    pthread_mutex_lock(&g_lock);
    for (unsigned i = 0; i < g_function_count; i++)
        if (strcmp(g_calls[i].name, function) == 0) count = g_calls[i].count;
    pthread_mutex_unlock(&g_lock);
    return count;
}

static void sleep_us(double us) {
    struct timespec left = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000L};
    prctl(PR_SET_TIMERSLACK, 1UL); /* else the kernel adds 50 microseconds */
    nanosleep(&left, NULL);
}

/* As a driver does that waits for the GPU's own processor (GSP): the time is this process's, too. */
static void spin_us(double us) {
    double until = now(CLOCK_MONOTONIC) + us / 1e6;
    while (now(CLOCK_MONOTONIC) < until) {}
}

static pthread_mutex_t *busy_of(const Slot *slot) {
    return slot >= g_slots && slot < g_slots + g_slot_count ? &g_busy[slot - g_slots] : &g_system_busy;
}

static Call begin(const char *function, const Slot *slot) {
    pthread_mutex_lock(&g_lock);
    read_scenario();
    count_call(function);
    double us = delay_us(&g_world, function);
    int spins = g_world.spins;
    if (us > 0) {
        pthread_mutex_t *busy = busy_of(slot);
        pthread_mutex_unlock(&g_lock);
        pthread_mutex_lock(busy);
        (spins ? spin_us : sleep_us)(us);
        pthread_mutex_unlock(busy);
        pthread_mutex_lock(&g_lock);
    }
    Call call = {OK, NULL, NULL, signal_time()};
    call.code = fault_code(g_world.faults, g_world.fault_count, function, call.t);
    return call;
}

static Call enter_slot(const char *function, const Slot *slot) {
    Call call = begin(function, slot);
    if (!call.code && !g_references && strncmp(function, "nvmlInit", 8) != 0) call.code = UNINITIALIZED;
    return call;
}

Call enter_system(const char *function) { return enter_slot(function, NULL); }

static void find_mig(Call *call, const Slot *slot) {
    for (unsigned i = 0; i < g_world.gpu_count; i++)
        for (unsigned k = 0; k < g_world.gpus[i].mig_count; k++)
            if (strcmp(g_world.gpus[i].mig[k].uuid, slot->uuid) == 0) {
                call->gpu = &g_world.gpus[i];
                call->mig = &g_world.gpus[i].mig[k];
                return;
            }
    call->code = NOT_FOUND;
}

static void find_gpu(Call *call, const Slot *slot) {
    for (unsigned i = 0; i < g_world.gpu_count; i++)
        if (strcmp(g_world.gpus[i].uuid, slot->uuid) == 0) {
            call->gpu = &g_world.gpus[i];
            return;
        }
    call->code = GPU_IS_LOST;
}

Call enter(const char *function, void *handle) {
    Slot *slot = handle;
    Call call = enter_slot(function, slot);
    if (call.code) return call;
    if (slot < g_slots || slot >= g_slots + g_slot_count) {
        call.code = INVALID_ARGUMENT;
        return call;
    }
    (slot->is_mig ? find_mig : find_gpu)(&call, slot);
    if (!call.code) call.code = fault_code(call.gpu->faults, call.gpu->fault_count, function, call.t);
    return call;
}

void leave(Call *call) {
    (void)call;
    pthread_mutex_unlock(&g_lock);
}

unsigned initialize(void) {
    if (g_references++) return OK;
    g_enumerated_count = g_world.gpu_count;
    for (unsigned i = 0; i < g_world.gpu_count; i++) strcpy(g_enumerated[i], g_world.gpus[i].uuid);
    return OK;
}

unsigned shut_down(void) {
    g_references--;
    return OK;
}

unsigned device_count(void) { return g_world.enumerate_live ? g_world.gpu_count : g_enumerated_count; }

static const char *uuid_at(unsigned index) {
    if (index >= device_count()) return NULL;
    return g_world.enumerate_live ? g_world.gpus[index].uuid : g_enumerated[index];
}

static unsigned slot_of(const char *uuid, int is_mig, void **handle) {
    unsigned i = 0;
    while (i < g_slot_count && strcmp(g_slots[i].uuid, uuid) != 0) i++;
    if (i == MAX_HANDLES) return UNKNOWN;
    if (i == g_slot_count) {
        strcpy(g_slots[g_slot_count].uuid, uuid);
        g_slots[g_slot_count++].is_mig = is_mig;
    }
    *handle = &g_slots[i];
    return OK;
}

const Gpu *gpu_of(const char *uuid) {
    for (unsigned i = 0; i < g_world.gpu_count; i++)
        if (strcmp(g_world.gpus[i].uuid, uuid) == 0) return &g_world.gpus[i];
    return NULL;
}

unsigned handle_of_gpu(unsigned index, void **handle) {
    const char *uuid = uuid_at(index);
    if (!uuid) return INVALID_ARGUMENT;
    const Gpu *gpu = gpu_of(uuid);
    if (!gpu) return GPU_IS_LOST;
    unsigned code = fault_code(gpu->faults, gpu->fault_count, "nvmlDeviceGetHandleByIndex_v2", signal_time());
    return code ? code : slot_of(uuid, 0, handle);
}

unsigned handle_of_uuid(const char *uuid, void **handle) {
    return gpu_of(uuid) ? slot_of(uuid, 0, handle) : NOT_FOUND;
}

unsigned handle_of_mig(const Mig *mig, void **handle) { return slot_of(mig->uuid, 1, handle); }

unsigned index_of_gpu(const Gpu *gpu) {
    for (unsigned i = 0; i < device_count(); i++)
        if (strcmp(uuid_at(i), gpu->uuid) == 0) return i;
    return 0;
}
