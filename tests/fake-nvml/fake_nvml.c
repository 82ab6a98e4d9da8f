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
 *   count FILE                     appends a byte to this file for every reading, so that a test can count them
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
enum { MOST_DEVICES = 16, MOST_PROCESSES = 64 };

typedef struct {
    int is_part, fails_with;
    char uuid[80], name[96];
    long long total, reserved, used, busy;
    unsigned pids[MOST_PROCESSES];
    long long bytes[MOST_PROCESSES];
    unsigned processes;
} Device;

typedef struct {
    int init_fails_with, hangs;
    char count_file[PATH_MAX];
    Device devices[MOST_DEVICES];
    int device_count;
} State;

/* A handle is the address of a place; the place is the device's position in the file. */
static char places[MOST_DEVICES];

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

static void read_line(State *state, const char *line) {
    char word[16] = "", uuid[80] = "", name[96] = "";
    long long a = 0, b = 0, c = 0, d = 0;
    sscanf(line, "%15s", word);
    if (strcmp(word, "init") == 0) {
        sscanf(line, "%*s %d", &state->init_fails_with);
    } else if (strcmp(word, "hang") == 0) {
        state->hangs = 1;
    } else if (strcmp(word, "count") == 0) {
        sscanf(line, "%*s %4095s", state->count_file);
    } else if ((strcmp(word, "gpu") == 0 || strcmp(word, "part") == 0) && state->device_count < MOST_DEVICES) {
        sscanf(line, "%*s %79s %lld %lld %lld %lld %95[^\n]", uuid, &a, &b, &c, &d, name);
        Device *device = &state->devices[state->device_count++];
        device->is_part = strcmp(word, "part") == 0;
        strcpy(device->uuid, uuid);
        strcpy(device->name, name);
        device->total = a, device->reserved = b, device->used = c, device->busy = d;
    } else if (strcmp(word, "process") == 0) {
        sscanf(line, "%*s %79s %lld %lld", uuid, &a, &b);
        Device *device = by_uuid(state, uuid);
        if (device != NULL && device->processes < MOST_PROCESSES) {
            device->pids[device->processes] = (unsigned)a;
            device->bytes[device->processes++] = b;
        }
    } else if (strcmp(word, "fail") == 0) {
        sscanf(line, "%*s %79s %lld", uuid, &a);
        Device *device = by_uuid(state, uuid);
        if (device != NULL)
            device->fails_with = (int)a;
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

/* The device for a reading: here a driver hangs or a GPU is lost. */
static int begin_reading(State *state, void *handle, Device **device) {
    *device = device_of(state, handle);
    while (*device != NULL && state->hangs) {
        usleep(10000);
        *device = device_of(state, handle);
    }
    if (*device == NULL)
        return INVALID;
    FILE *count = state->count_file[0] ? fopen(state->count_file, "a") : NULL;
    if (count != NULL) {
        fputc('.', count);
        fclose(count);
    }
    return (*device)->fails_with;
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

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo_v2(void *handle, Memory *memory) {
    State state;
    Device *device;
    int code = begin_reading(&state, handle, &device);
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
    int code = begin_reading(&state, handle, &device);
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
    int code = begin_reading(&state, handle, &device);
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
