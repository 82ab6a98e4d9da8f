/* A driver library without a driver: the functions of NVML that Nilometer calls, with numbers from a text file.
 *
 * The file is the one named by FAKE_NVML, else `gpus.txt` beside the library. It is read anew on every call,
 * so that a test can let memory grow, lose a GPU or let the driver hang in the middle of a run. Its lines:
 *
 *   init CODE                      nvmlInit fails with this code
 *   hang                           every reading waits until this line is gone
 *   gpu UUID TOTAL RESERVED USED BUSY NAME...    a GPU; USED or BUSY of -1 are "not supported"
 *   part UUID TOTAL RESERVED USED BUSY NAME...   a part (MIG) of the GPU before it, which is divided thereby
 *   process UUID PID BYTES         a process on it; BYTES of -1 are "not available"
 *   fail UUID CODE                 every reading of it fails with this code, such as 15 for "GPU is lost"
 *   sensor UUID NAME VALUE         one of its sensors; without this line it is "not supported". Names: power and power_limit (in
 *                                  milliwatts), temperature, sm_clock, memory_clock, throttle (NVML's bits), ecc (uncorrected errors),
 *                                  nvlink_sent and nvlink_received (in KiB, over all links), capability (ten times major and minor: 90)
 *   error UUID FUNCTION CODE       one function fails with this code for one GPU
 *   count FILE                     appends a byte to this file for every reading of memory, utilization and processes
 *   log FILE                       appends the name of every function that is asked about a GPU
 *   from N [to M]                  what follows holds from tick N on, up to M: tick 0 is when the driver is opened, and each
 *                                  reading of all GPUs is one more
 *   missing FUNCTION               the library has no such function: read by whoever builds it, who hides the symbol
 *   # ...                          a remark
 *
 * A later line for the same GPU, sensor or function replaces an earlier one, so that a section says only what changes.
 * Whole scenarios in this form lie in `scenarios/`.
 *
 * Build: cc -shared -fPIC -o libnvidia-ml.so.1 fake_nvml.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, VERSION_MISMATCH = 25, UNKNOWN = 999 };
enum { MOST_DEVICES = 16, MOST_PROCESSES = 64, MOST_ERRORS = 16 };
enum { POWER, POWER_LIMIT, TEMPERATURE, SM_CLOCK, MEMORY_CLOCK, THROTTLE, ECC, NVLINK_SENT, NVLINK_RECEIVED, CAPABILITY, SENSORS };
static const char *const SENSOR_NAMES[SENSORS] = {"power", "power_limit", "temperature", "sm_clock", "memory_clock", "throttle", "ecc", "nvlink_sent", "nvlink_received", "capability"};

typedef struct {
    int is_part, fails_with;
    char uuid[80], name[96];
    long long total, reserved, used, busy;
    unsigned pids[MOST_PROCESSES];
    long long bytes[MOST_PROCESSES];
    unsigned processes;
    long long sensors[SENSORS];
    char failing[MOST_ERRORS][64];
    int failing_with[MOST_ERRORS], failures;
} Device;

typedef struct {
    int init_fails_with, hangs;
    char count_file[PATH_MAX], log_file[PATH_MAX];
    int is_out_of_force;
    Device devices[MOST_DEVICES];
    int device_count;
} State;

/* A handle is the address of a place; the place is the device's position in the file. */
static char places[MOST_DEVICES];

/* Ticks are counted by the GPU that was read first. */
static void *counting_handle;
static int tick;

static void state_path(char *path) {
    const char *named = getenv("FAKE_NVML");
    Dl_info info;
    if (named != NULL) {
        snprintf(path, PATH_MAX, "%s", named);
    } else if (dladdr((void *)state_path, &info) != 0 && strrchr(info.dli_fname, '/') != NULL) {
        int folder = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
        snprintf(path, PATH_MAX, "%.*s/gpus.txt", folder, info.dli_fname);
    } else {
        snprintf(path, PATH_MAX, "gpus.txt");
    }
}

static Device *by_uuid(State *state, const char *uuid) {
    for (int i = 0; i < state->device_count; i++)
        if (strcmp(state->devices[i].uuid, uuid) == 0)
            return &state->devices[i];
    return NULL;
}

static void read_device(State *state, const char *line, int is_part) {
    char uuid[80] = "", name[96] = "";
    long long total = 0, reserved = 0, used = 0, busy = 0;
    sscanf(line, "%*s %79s %lld %lld %lld %lld %95[^\n]", uuid, &total, &reserved, &used, &busy, name);
    Device *device = by_uuid(state, uuid);
    if (device == NULL && state->device_count == MOST_DEVICES)
        return;
    if (device == NULL) {
        device = &state->devices[state->device_count++];
        for (int i = 0; i < SENSORS; i++)
            device->sensors[i] = -1;
    }
    device->is_part = is_part;
    strcpy(device->uuid, uuid);
    strcpy(device->name, name);
    device->total = total, device->reserved = reserved, device->used = used, device->busy = busy;
}

static void read_sensor(Device *device, const char *name, long long value) {
    for (int i = 0; i < SENSORS; i++)
        if (strcmp(SENSOR_NAMES[i], name) == 0)
            device->sensors[i] = value;
}

static void read_error(Device *device, const char *function, int code) {
    int i = 0;
    while (i < device->failures && strcmp(device->failing[i], function) != 0)
        i++;
    if (i == MOST_ERRORS)
        return;
    snprintf(device->failing[i], sizeof device->failing[i], "%s", function);
    device->failing_with[i] = code;
    if (i == device->failures)
        device->failures++;
}

static void read_line(State *state, const char *line) {
    char word[16] = "", uuid[80] = "", name[64] = "";
    long long a = 0, b = 0;
    sscanf(line, "%15s", word);
    if (strcmp(word, "from") == 0) {
        b = INT_MAX;
        sscanf(line, "%*s %lld to %lld", &a, &b);
        state->is_out_of_force = tick < a || tick > b;
        return;
    }
    if (state->is_out_of_force)
        return;
    if (strcmp(word, "init") == 0) {
        sscanf(line, "%*s %d", &state->init_fails_with);
    } else if (strcmp(word, "hang") == 0) {
        state->hangs = 1;
    } else if (strcmp(word, "count") == 0) {
        sscanf(line, "%*s %4095s", state->count_file);
    } else if (strcmp(word, "log") == 0) {
        sscanf(line, "%*s %4095s", state->log_file);
    } else if (strcmp(word, "gpu") == 0 || strcmp(word, "part") == 0) {
        read_device(state, line, strcmp(word, "part") == 0);
    } else {
        sscanf(line, "%*s %79s", uuid);
        Device *device = by_uuid(state, uuid);
        if (device == NULL)
            return;
        if (strcmp(word, "process") == 0 && device->processes < MOST_PROCESSES) {
            sscanf(line, "%*s %*s %lld %lld", &a, &b);
            device->pids[device->processes] = (unsigned)a;
            device->bytes[device->processes++] = b;
        } else if (strcmp(word, "fail") == 0) {
            sscanf(line, "%*s %*s %d", &device->fails_with);
        } else if (strcmp(word, "sensor") == 0) {
            sscanf(line, "%*s %*s %63s %lld", name, &a);
            read_sensor(device, name, a);
        } else if (strcmp(word, "error") == 0) {
            sscanf(line, "%*s %*s %63s %lld", name, &a);
            read_error(device, name, (int)a);
        }
    }
}

static int read_state(State *state) {
    char path[PATH_MAX], line[512];
    memset(state, 0, sizeof *state);
    state_path(path);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return UNKNOWN;
    while (fgets(line, sizeof line, file) != NULL)
        read_line(state, line);
    fclose(file);
    return SUCCESS;
}

static Device *device_of(State *state, void *handle) {
    long place = (char *)handle - places;
    if (read_state(state) != SUCCESS || place < 0 || place >= state->device_count)
        return NULL;
    return &state->devices[place];
}

static void append(const char *path, const char *text) {
    FILE *file = path[0] ? fopen(path, "a") : NULL;
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
}

/* The device for a question: here a driver hangs, a GPU is lost or a function fails. */
static int begin_question(State *state, void *handle, Device **device, const char *function) {
    *device = device_of(state, handle);
    while (*device != NULL && state->hangs) {
        usleep(10000);
        *device = device_of(state, handle);
    }
    if (*device == NULL)
        return INVALID;
    if (state->log_file[0]) {
        append(state->log_file, function);
        append(state->log_file, "\n");
    }
    for (int i = 0; i < (*device)->failures; i++)
        if (strcmp((*device)->failing[i], function) == 0)
            return (*device)->failing_with[i];
    return (*device)->fails_with;
}

/* The same for a reading, which is counted. */
static int begin_reading(State *state, void *handle, Device **device, const char *function) {
    int code = begin_question(state, handle, device, function);
    if (*device != NULL)
        append(state->count_file, ".");
    return code;
}

/* The place of the nth device that is (or is not) a part, from a place on; a GPU ends the search for parts. */
static int find_place(const State *state, int from, int is_part, unsigned n) {
    for (int i = from; i < state->device_count; i++) {
        if (state->devices[i].is_part == is_part && n-- == 0)
            return i;
        if (is_part && !state->devices[i].is_part)
            return -1;
    }
    return -1;
}

int nvmlInit_v2(void) {
    State state;
    int code = read_state(&state);
    return code != SUCCESS ? code : state.init_fails_with;
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "999.99");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    State state;
    int code = read_state(&state);
    *count = 0;
    for (int i = 0; i < state.device_count; i++)
        *count += !state.devices[i].is_part;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    State state;
    int code = read_state(&state);
    if (code != SUCCESS)
        return code;
    int place = find_place(&state, 0, 0, index);
    if (place < 0)
        return INVALID;
    *handle = &places[place];
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    *current = *pending = find_place(&state, (int)(device - state.devices) + 1, 1, 0) >= 0;
    return SUCCESS;
}

/* One place more than there are parts: places may be empty. */
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    *count = 0;
    while (find_place(&state, (int)(device - state.devices) + 1, 1, *count) >= 0)
        ++*count;
    ++*count;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **part) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    int place = find_place(&state, (int)(device - state.devices) + 1, 1, index);
    if (place < 0)
        return NOT_FOUND;
    *part = &places[place];
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    snprintf(name, length, "%s", device->name);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    snprintf(uuid, length, "%s", device->uuid);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    State state;
    Device *device = device_of(&state, handle);
    if (device == NULL)
        return INVALID;
    if (device->sensors[CAPABILITY] < 0)
        return NOT_SUPPORTED;
    *major = (int)(device->sensors[CAPABILITY] / 10), *minor = (int)(device->sensors[CAPABILITY] % 10);
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo_v2(void *handle, Memory *memory) {
    State state;
    Device *device;
    if (counting_handle == NULL)
        counting_handle = handle;
    else
        tick += counting_handle == handle;
    int code = begin_reading(&state, handle, &device, __func__);
    if (code != SUCCESS)
        return code;
    if (memory->version != (sizeof(Memory) | 2 << 24))
        return VERSION_MISMATCH;
    if (device->used < 0)
        return NOT_SUPPORTED;
    memory->total = (unsigned long long)device->total;
    memory->reserved = (unsigned long long)device->reserved;
    memory->used = (unsigned long long)device->used;
    memory->free = (unsigned long long)(device->total - device->reserved - device->used);
    return SUCCESS;
}

typedef struct {
    unsigned gpu, memory;
} Utilization;

int nvmlDeviceGetUtilizationRates(void *handle, Utilization *rates) {
    State state;
    Device *device;
    int code = begin_reading(&state, handle, &device, __func__);
    if (code != SUCCESS)
        return code;
    if (device->busy < 0)
        return NOT_SUPPORTED;
    rates->gpu = (unsigned)device->busy;
    rates->memory = 0;
    return SUCCESS;
}

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} Process;

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Process *processes) {
    State state;
    Device *device;
    int code = begin_reading(&state, handle, &device, __func__);
    if (code != SUCCESS)
        return code;
    unsigned room = *count;
    *count = device->processes;
    if (room < device->processes)
        return TOO_SMALL;
    for (unsigned i = 0; i < device->processes; i++) {
        processes[i].pid = device->pids[i];
        processes[i].used = (unsigned long long)device->bytes[i];
        processes[i].gpu_instance = processes[i].compute_instance = 0xFFFFFFFF;
    }
    return SUCCESS;
}

static int read_one(void *handle, int sensor, const char *function, long long *value) {
    State state;
    Device *device;
    int code = begin_question(&state, handle, &device, function);
    if (code != SUCCESS)
        return code;
    *value = device->sensors[sensor];
    return *value < 0 ? NOT_SUPPORTED : SUCCESS;
}

static int read_small(void *handle, int sensor, const char *function, unsigned *value) {
    long long wide = 0;
    int code = read_one(handle, sensor, function, &wide);
    *value = (unsigned)wide;
    return code;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) { return read_small(handle, POWER, __func__, milliwatts); }

int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    return read_small(handle, POWER_LIMIT, __func__, milliwatts);
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    return sensor != 0 ? INVALID : read_small(handle, TEMPERATURE, __func__, celsius);
}

int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *mhz) {
    enum { SM = 1, MEMORY = 2 };
    if (type != SM && type != MEMORY)
        return INVALID;
    return read_small(handle, type == SM ? SM_CLOCK : MEMORY_CLOCK, __func__, mhz);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    return read_one(handle, THROTTLE, __func__, (long long *)reasons);
}

int nvmlDeviceGetTotalEccErrors(void *handle, int error, int counter, unsigned long long *count) {
    enum { UNCORRECTED = 1, VOLATILE = 0 };
    if (error != UNCORRECTED || counter != VOLATILE)
        return INVALID;
    return read_one(handle, ECC, __func__, (long long *)count);
}

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int code;
    unsigned long long value;
} FieldValue;

/* Each value has a code of its own. Only counters of all links together are known here. */
int nvmlDeviceGetFieldValues(void *handle, int count, FieldValue *values) {
    enum { SENT = 138, RECEIVED = 139, ALL_LINKS = -1, UNSIGNED_LONG_LONG = 3 };
    State state;
    Device *device;
    int code = begin_question(&state, handle, &device, __func__);
    for (int i = 0; i < count && code == SUCCESS; i++) {
        FieldValue *asked = &values[i];
        long long counter = asked->field == SENT ? device->sensors[NVLINK_SENT] : asked->field == RECEIVED ? device->sensors[NVLINK_RECEIVED] : -1;
        asked->code = asked->scope != (unsigned)ALL_LINKS ? INVALID : counter < 0 ? NOT_SUPPORTED : SUCCESS;
        asked->type = UNSIGNED_LONG_LONG;
        asked->value = (unsigned long long)counter;
    }
    return code;
}
