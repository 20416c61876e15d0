/* nvmlInit, nvmlShutdown, versions, and the way to a device's handle. */
#include "fake.h"

EXPORT unsigned nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    SYSTEM_CALL();
    return initialize();
}

EXPORT unsigned nvmlInit_v2(void) {
    SYSTEM_CALL();
    return initialize();
}

EXPORT unsigned nvmlShutdown(void) {
    SYSTEM_CALL();
    return shut_down();
}

EXPORT const char *nvmlErrorString(unsigned code) {
    (void)code;
    return "an error that the scenario asked for";
}

EXPORT unsigned nvmlSystemGetDriverVersion(char *out, unsigned size) {
    SYSTEM_CALL();
    return copy_text(world()->driver, out, size);
}

EXPORT unsigned nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    SYSTEM_CALL();
    return copy_text("12.570.86.15", out, size);
}

EXPORT unsigned nvmlDeviceGetCount_v2(unsigned *count) {
    SYSTEM_CALL();
    *count = device_count();
    return OK;
}

EXPORT unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    SYSTEM_CALL();
    return handle_of_gpu(index, handle);
}

EXPORT unsigned nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    SYSTEM_CALL();
    return handle_of_uuid(uuid, handle);
}
