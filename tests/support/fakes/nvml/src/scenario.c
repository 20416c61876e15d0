/* Reads a scenario file. A line that cannot be read ends the program: a test must not run in a wrong world. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const char *const CODES[] = {
    "SUCCESS", "UNINITIALIZED", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_PERMISSION", "ALREADY_INITIALIZED",
    "NOT_FOUND", "INSUFFICIENT_SIZE", "INSUFFICIENT_POWER", "DRIVER_NOT_LOADED", "TIMEOUT", "IRQ_ISSUE",
    "LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND", "CORRUPTED_INFOROM", "GPU_IS_LOST", "RESET_REQUIRED",
    "OPERATING_SYSTEM", "LIB_RM_VERSION_MISMATCH", "IN_USE", "MEMORY", "NO_DATA",
};

#define KEY(name) {#name, offsetof(Gpu, name)}
static const struct { const char *name; size_t offset; } GPU_KEYS[] = {
    KEY(util), KEY(mem_util), KEY(mem_used), KEY(mem_total), KEY(mem_reserved), KEY(power_w), KEY(power_limit_w),
    KEY(energy_j), KEY(temp_c), KEY(slowdown_c), KEY(sm_mhz), KEY(mem_mhz), KEY(pcie_rx), KEY(pcie_tx), KEY(pcie_gen), KEY(pcie_width),
    KEY(throttle), KEY(mig_mode), KEY(gpm), KEY(util_hz), KEY(power_hz), KEY(process_hz), KEY(ring), KEY(pcie_bits),
    KEY(idle_dry), KEY(mem_temp_c), KEY(enc), KEY(dec), KEY(jpg), KEY(ofa),
    KEY(ecc), KEY(ecc_sram), KEY(banks_low), KEY(banks_none), KEY(compute_mode), KEY(persistence), KEY(event_types), KEY(fabric_state), KEY(fabric_health), KEY(fabric_summary), KEY(fabric_version),
};

static const Gpu TYPICAL = {
    .name = "NVIDIA H200", .mem_total = {.a = 150754820096}, .mem_reserved = {.a = 600000000}, .power_w = {.a = 80},
    .power_limit_w = {.a = 700}, .temp_c = {.a = 40}, .slowdown_c = {.a = 87}, .sm_mhz = {.a = 1980}, .mem_mhz = {.a = 3201}, .pcie_gen = {.a = 5},
    .pcie_width = {.a = 16}, .gpm = {.a = 1}, .util_hz = {.a = 6}, .power_hz = {.a = 10}, .process_hz = {.a = 6},
    .ring = {.a = 100}, .pcie_bits = {.a = 64}, .idle_dry = {.a = 1}, .mem_temp_c = {.a = 45},
    .serial = "1653323014211", .bus_id = "00000000:18:00.0", .ecc = {.a = 1}, .persistence = {.a = 1}, .event_types = {.a = 0xff8b},
    .fabric_state = {.a = 3}, .fabric_summary = {.a = 1}, .fabric_version = {.a = 3},
};

static const char *g_path;
static int g_line;

static void refuse(const char *what, const char *text) {
    fprintf(stderr, "%s:%d: %s: %s\n", g_path, g_line, what, text);
    abort();
}

static double number(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) refuse("no number", text);
    return value;
}

static Signal signal(const char *text) {
    Signal parsed;
    if (!signal_parse(text, &parsed)) refuse("no number, square(…), sine(…) or ramp(…)", text);
    return parsed;
}

static unsigned code(const char *text) {
    for (unsigned i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (strcmp(text, CODES[i]) == 0) return i;
    return strcmp(text, "UNKNOWN") == 0 ? UNKNOWN : (unsigned)number(text);
}

/* `key=value` words, cut in place; returns 0 at the end of the line. */
static int next_pair(char **rest, char **key, char **value) {
    char *word = strtok_r(NULL, " \t", rest);
    if (!word) return 0;
    char *equals = strchr(word, '=');
    if (!equals) refuse("not key=value", word);
    *equals = '\0';
    *key = word;
    *value = equals + 1;
    return 1;
}

static void add_fault(Fault *faults, unsigned *count, char *rest) {
    char *function = strtok_r(NULL, " \t", &rest), *name = strtok_r(NULL, " \t", &rest), *key, *value;
    if (!function || !name || *count == MAX_FAULTS) refuse("error wants a function and a code", "");
    Fault *fault = &faults[(*count)++];
    *fault = (Fault){.code = code(name), .from = -1e18, .until = 1e18};
    copy_text(function, fault->function, MAX_TEXT);
    while (next_pair(&rest, &key, &value)) {
        if (strcmp(key, "from") == 0) fault->from = number(value);
        else if (strcmp(key, "until") == 0) fault->until = number(value);
        else refuse("unknown key of error", key);
    }
}

static void add_delay(World *world, char *rest) {
    char *function = strtok_r(NULL, " \t", &rest), *us = strtok_r(NULL, " \t", &rest);
    if (!function || !us || world->delay_count == MAX_DELAYS) refuse("delay wants a function and microseconds", "");
    Delay *delay = &world->delays[world->delay_count++];
    copy_text(function, delay->function, MAX_TEXT);
    delay->us = number(us);
}

static void set_kind(Process *process, const char *kind) {
    process->compute = strcmp(kind, "compute") == 0 || strcmp(kind, "both") == 0;
    process->graphics = strcmp(kind, "graphics") == 0 || strcmp(kind, "both") == 0;
    if (!process->compute && !process->graphics && strcmp(kind, "none") != 0) refuse("unknown kind", kind);
}

static void add_process(Gpu *gpu, char *rest) {
    char *pid = strtok_r(NULL, " \t", &rest), *key, *value;
    if (!pid || gpu->process_count == MAX_PROCESSES) refuse("process wants a pid", "");
    Process *p = &gpu->processes[gpu->process_count++];
    *p = (Process){.pid = (unsigned)number(pid), .compute = 1, .memory_known = 1, .from = -1e18, .until = 1e18,
                   .gpu_instance = -1u, .compute_instance = -1u};
    while (next_pair(&rest, &key, &value)) {
        if (strcmp(key, "mem") == 0 && strcmp(value, "none") == 0) p->memory_known = 0;
        else if (strcmp(key, "mem") == 0) p->memory = number(value);
        else if (strcmp(key, "util") == 0) p->util = signal(value);
        else if (strcmp(key, "mem_util") == 0) p->mem_util = signal(value);
        else if (strcmp(key, "kind") == 0) set_kind(p, value);
        else if (strcmp(key, "from") == 0) p->from = number(value);
        else if (strcmp(key, "until") == 0) p->until = number(value);
        else if (strcmp(key, "gi") == 0) p->gpu_instance = (unsigned)number(value);
        else if (strcmp(key, "ci") == 0) p->compute_instance = (unsigned)number(value);
        else refuse("unknown key of process", key);
    }
}

/* `counter 2 95`: one of GPM's metrics by its number; of a slice `counter:2=95`. */
static void add_counter(Counter *counters, unsigned *count, const char *id, const char *of) {
    if (!id || !of || *count == MAX_COUNTERS) refuse("counter wants a number of GPM and a value", "");
    counters[(*count)++] = (Counter){(unsigned)number(id), signal(of)};
}

static void add_mig(Gpu *gpu, char *rest) {
    char *index = strtok_r(NULL, " \t", &rest), *key, *value;
    if (!index || gpu->mig_count == MAX_MIG) refuse("mig wants an index", "");
    Mig *m = &gpu->mig[gpu->mig_count++];
    *m = (Mig){.index = (unsigned)number(index), .slices = 1, .compute_slices = 1};
    while (next_pair(&rest, &key, &value)) {
        if (strcmp(key, "uuid") == 0) copy_text(value, m->uuid, MAX_TEXT);
        else if (strcmp(key, "profile") == 0) copy_text(value, m->profile, MAX_TEXT);
        else if (strcmp(key, "gi") == 0) m->gpu_instance = (unsigned)number(value);
        else if (strcmp(key, "ci") == 0) m->compute_instance = (unsigned)number(value);
        else if (strcmp(key, "slices") == 0) m->slices = (unsigned)number(value);
        else if (strcmp(key, "compute_slices") == 0) m->compute_slices = (unsigned)number(value);
        else if (strcmp(key, "hidden") == 0) m->hidden = (unsigned)number(value);
        else if (strcmp(key, "mem_used") == 0) m->mem_used = signal(value);
        else if (strcmp(key, "mem_total") == 0) m->mem_total = signal(value);
        else if (strcmp(key, "util") == 0) m->util = signal(value);
        else if (strncmp(key, "counter:", 8) == 0) add_counter(m->counters, &m->counter_count, key + 8, value);
        else refuse("unknown key of mig", key);
    }
}

/* `event 79 at=3.0 [type=8] [gi=1 ci=0]`: the Xid, or the data of another type of event. */
static void add_event(Gpu *gpu, char *rest) {
    char *data = strtok_r(NULL, " \t", &rest), *key, *value;
    if (!data || gpu->event_count == MAX_EVENTS) refuse("event wants its data, such as an Xid", "");
    Event *event = &gpu->events[gpu->event_count++];
    *event = (Event){.type = 8, .data = (unsigned long long)number(data), .gpu_instance = -1u, .compute_instance = -1u};
    while (next_pair(&rest, &key, &value)) {
        if (strcmp(key, "at") == 0) event->at = number(value);
        else if (strcmp(key, "type") == 0) event->type = (unsigned long long)number(value);
        else if (strcmp(key, "gi") == 0) event->gpu_instance = (unsigned)number(value);
        else if (strcmp(key, "ci") == 0) event->compute_instance = (unsigned)number(value);
        else refuse("unknown key of event", key);
    }
}

/* `field 230 2 [scope=3] [type=1]`: the value of one of NVML's fields; type as NVML numbers it. */
static void add_field(Gpu *gpu, char *rest) {
    char *id = strtok_r(NULL, " \t", &rest), *of = strtok_r(NULL, " \t", &rest), *key, *value;
    if (!id || !of || gpu->field_count == MAX_FIELDS) refuse("field wants an id and a value", "");
    Field *field = &gpu->fields[gpu->field_count++];
    *field = (Field){(unsigned)number(id), ANY_SCOPE, VALUE_ULONG_LONG, signal(of)};
    while (next_pair(&rest, &key, &value)) {
        if (strcmp(key, "scope") == 0) field->scope = (unsigned)number(value);
        else if (strcmp(key, "type") == 0) field->value_type = (unsigned)number(value);
        else refuse("unknown key of field", key);
    }
}

static Gpu *add_gpu(World *world, const char *uuid) {
    if (world->gpu_count == MAX_GPUS) refuse("too many GPUs", uuid);
    Gpu *gpu = &world->gpus[world->gpu_count++];
    *gpu = TYPICAL;
    copy_text(uuid, gpu->uuid, MAX_TEXT);
    return gpu;
}

static void read_gpu_key(Gpu *gpu, const char *key, char *rest) {
    char *text = strcmp(key, "name") == 0 ? gpu->name : strcmp(key, "serial") == 0 ? gpu->serial : strcmp(key, "bus_id") == 0 ? gpu->bus_id : NULL;
    if (text) {
        copy_text(rest, text, MAX_TEXT);
        return;
    }
    for (unsigned i = 0; i < sizeof GPU_KEYS / sizeof *GPU_KEYS; i++)
        if (strcmp(key, GPU_KEYS[i].name) == 0) {
            *(Signal *)((char *)gpu + GPU_KEYS[i].offset) = signal(rest);
            if (strcmp(key, "energy_j") == 0) gpu->energy_given.a = 1;
            return;
        }
    refuse("unknown key of a gpu", key);
}

static void read_world_key(World *world, const char *key, char *rest) {
    if (strcmp(key, "driver") == 0) copy_text(rest, world->driver, MAX_TEXT);
    else if (strcmp(key, "start") == 0) world->start = number(rest);
    else if (strcmp(key, "enumerate") == 0) world->enumerate_live = strcmp(rest, "live") == 0;
    else if (strcmp(key, "clock") == 0 && strcmp(rest, "boot") == 0) world->clock_boot = 1;
    else if (strcmp(key, "clock") == 0) world->clock_offset = strcmp(rest, "wall") == 0 ? 0 : number(rest);
    else if (strcmp(key, "wait") == 0) world->spins = strcmp(rest, "spin") == 0;
    else refuse("unknown key", key);
}

static void read_line(World *world, Gpu **gpu, char *line) {
    char *rest, *key = strtok_r(line, " \t", &rest);
    if (!key) return;
    if (strcmp(key, "gpu") == 0) *gpu = add_gpu(world, strtok_r(NULL, " \t", &rest));
    else if (strcmp(key, "error") == 0 && *gpu) add_fault((*gpu)->faults, &(*gpu)->fault_count, rest);
    else if (strcmp(key, "error") == 0) add_fault(world->faults, &world->fault_count, rest);
    else if (strcmp(key, "delay") == 0) add_delay(world, rest);
    else if (strcmp(key, "process") == 0 && *gpu) add_process(*gpu, rest);
    else if (strcmp(key, "mig") == 0 && *gpu) add_mig(*gpu, rest);
    else if (strcmp(key, "counter") == 0 && *gpu) {
        char *id = strtok_r(NULL, " \t", &rest), *of = strtok_r(NULL, " \t", &rest);
        add_counter((*gpu)->counters, &(*gpu)->counter_count, id, of);
    }
    else if (strcmp(key, "event") == 0 && *gpu) add_event(*gpu, rest);
    else if (strcmp(key, "field") == 0 && *gpu) add_field(*gpu, rest);
    else if (*gpu) read_gpu_key(*gpu, key, rest);
    else read_world_key(world, key, rest);
}

void scenario_parse(const char *path, World *world) {
    char line[4096];
    Gpu *gpu = NULL;
    FILE *file = fopen(path, "r");
    g_path = path;
    g_line = 0;
    if (!file) refuse("cannot be opened", path);
    while (fgets(line, sizeof line, file)) {
        g_line++;
        line[strcspn(line, "#\r\n")] = '\0';
        for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--) line[n - 1] = '\0';
        read_line(world, &gpu, line);
    }
    fclose(file);
}

unsigned fault_code(const Fault *faults, unsigned count, const char *function, double t) {
    for (unsigned i = 0; i < count; i++) {
        const Fault *f = &faults[i];
        if (f->from <= t && t < f->until && (strcmp(f->function, function) == 0 || strcmp(f->function, "*") == 0))
            return f->code;
    }
    return OK;
}

double delay_us(const World *world, const char *function) {
    double all = 0;
    for (unsigned i = 0; i < world->delay_count; i++) {
        if (strcmp(world->delays[i].function, function) == 0) return world->delays[i].us;
        if (strcmp(world->delays[i].function, "*") == 0) all = world->delays[i].us;
    }
    return all;
}
