/* Event sets: what is told to a set once, of the devices that were registered with it before. */
#include <string.h>
#include <time.h>

#include "fake.h"

enum { MAX_SETS = 16, LOOK_US = 2000 };

/* A device of a set, and how far its events were told: `told` of those at the moment `until`. */
typedef struct { char uuid[MAX_TEXT]; unsigned long long mask; double since, until; unsigned told; } Registered;
typedef struct { int used; unsigned count; Registered devices[MAX_GPUS]; } Set;
static Set g_sets[MAX_SETS];

EXPORT unsigned nvmlEventSetCreate(Set **set) {
    SYSTEM_CALL();
    for (unsigned i = 0; i < MAX_SETS; i++)
        if (!g_sets[i].used) {
            memset(&g_sets[i], 0, sizeof g_sets[i]);
            g_sets[i].used = 1;
            *set = &g_sets[i];
            return OK;
        }
    return UNKNOWN;
}

EXPORT unsigned nvmlEventSetFree(Set *set) {
    SYSTEM_CALL();
    if (!set->used) return INVALID_ARGUMENT;
    set->used = 0;
    return OK;
}

/* For tests: how many sets were made and not freed. */
EXPORT unsigned fakeNvmlEventSets(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < MAX_SETS; i++) count += (unsigned)g_sets[i].used;
    return count;
}

EXPORT unsigned nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *mask) {
    DEVICE_CALL(device);
    *mask = (unsigned long long)call.gpu->event_types.a;
    return OK;
}

EXPORT unsigned nvmlDeviceRegisterEvents(void *device, unsigned long long mask, Set *set) {
    DEVICE_CALL(device);
    if (call.mig || !set->used) return INVALID_ARGUMENT;
    if (mask & ~(unsigned long long)call.gpu->event_types.a) return NOT_SUPPORTED;
    if (set->count == MAX_GPUS) return UNKNOWN;
    Registered *one = &set->devices[set->count++];
    *one = (Registered){.mask = mask, .since = call.t, .until = -1e18};
    return copy_text(call.gpu->uuid, one->uuid, MAX_TEXT);
}

/* The next event of a device that was not told yet; `nth`: of those at its moment. */
static const Event *next_event(const Registered *one, double t, unsigned *nth) {
    const Gpu *gpu = gpu_of(one->uuid);
    const Event *found = NULL;
    unsigned same = 0;
    double last = -1e18;
    for (unsigned i = 0; gpu && i < gpu->event_count; i++) {
        const Event *event = &gpu->events[i];
        same = event->at == last ? same + 1 : 0;
        last = event->at;
        if (event->at > t || event->at < one->since || !(event->type & one->mask)) continue;
        if (event->at < one->until || (event->at == one->until && same < one->told)) continue;
        if (!found || event->at < found->at) {
            found = event;
            *nth = same;
        }
    }
    return found;
}

static unsigned tell(Set *set, EventData *out) {
    Call call __attribute__((cleanup(leave))) = enter_system("nvmlEventSetWait_v2");
    if (call.code) return call.code;
    if (!set->used) return INVALID_ARGUMENT;
    Registered *whose = NULL;
    const Event *first = NULL;
    unsigned nth = 0;
    for (unsigned i = 0; i < set->count; i++) {
        unsigned of_it = 0;
        const Event *event = next_event(&set->devices[i], call.t, &of_it);
        if (!event || (first && first->at <= event->at)) continue;
        first = event, whose = &set->devices[i], nth = of_it;
    }
    if (!first) return TIMEOUT;
    whose->until = first->at;
    whose->told = nth + 1;
    *out = (EventData){.type = first->type, .data = first->data, .gpu_instance = first->gpu_instance, .compute_instance = first->compute_instance};
    return handle_of_uuid(whose->uuid, &out->device);
}

/* It waits without the lock: other threads go on to ask the driver. */
EXPORT unsigned nvmlEventSetWait_v2(Set *set, EventData *out, unsigned ms) {
    unsigned code;
    for (double left_us = 1000.0 * ms; (code = tell(set, out)) == TIMEOUT && left_us > 0; left_us -= LOOK_US)
        nanosleep(&(struct timespec){0, LOOK_US * 1000}, NULL);
    return code;
}
