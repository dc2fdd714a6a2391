/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows the corpus of a fuzz target by inputs that notice the removal of a
 * check: linked in the place of replay.c (tests/analyze/grow.py).
 *
 * usage: PROGRAM SECONDS KILLED OUT SEED FILE|NAME.pack.gz|FOLDER...
 *
 * FOLDER holds inputs that are not in the corpus yet, as a campaign keeps them:
 * each is tried as a mutant is, before the mutants.
 * KILLED: numbers of the checks that are killed already; written anew.  OUT
 * gets the inputs, as a pack without compression; OUT.costly.N one that costs
 * more than a stranger may.
 */
#include <dirent.h>
#include <zlib.h>

#include "tests/analyze/grow/trial.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/fuzz/replay/verdict.c"

#pragma weak LLVMFuzzerCustomMutator

#define LARGEST 4096

struct input {
    uint8_t *data;
    size_t size;
};

static struct input *queue;
static size_t queued, room;
static const char *out_path;

/* In the place of libFuzzer's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static const uint8_t likely[] = {0,   1,   2,   3,   4,   5,   7,   8,
                                     9,   15,  16,  17,  31,  32,  63,  64,
                                     127, 128, 254, 255, '0', '1', '-', '9',
                                     'a', '"', '[', ']', '{', '}', ',', ':'};
    const unsigned way = trial_random(8);
    const size_t at = size > 0 ? trial_random((unsigned)size) : 0;
    const size_t n = 1 + trial_random(8);

    if (size < max_size && (size == 0 || way == 0)) {
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)trial_random(256);
        return size + 1;
    }
    if (way == 1 && n <= size - at && size > n) {
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    }
    if (way == 2 || way == 3) {
        data[at] = likely[trial_random(sizeof likely)];
    } else if (way == 4) {
        data[at] = (uint8_t)trial_random(256);
    } else if (way == 5) {
        const size_t to = trial_random((unsigned)size);
        if (at + n <= size && to + n <= size)
            memmove(data + to, data + at, n);
    } else if (way == 6 && at + n <= size && size + n <= max_size) {
        memmove(data + at + n, data + at, size - at);
        return size + n;
    } else {
        data[at] ^= (uint8_t)(1u << trial_random(8));
    }
    return size;
}

static void run(void *subject, struct trial *t)
{
    const struct input *in = subject;
    uint8_t *copy = malloc(in->size ? in->size : 1);

    memcpy(copy, in->data, in->size);
    verdict_begin();
    LLVMFuzzerTestOneInput(copy, in->size);
    free(copy);
    t->code = kind;
    snprintf(t->said, sizeof t->said, "%016llx", (unsigned long long)hash);
}

/* As verdict.c compares, the words included. */
static bool differs(const struct trial *base, const struct trial *now)
{
    return base->code != 'u' &&
           (base->code != now->code || strcmp(base->said, now->said) != 0);
}

static void push(const uint8_t *data, size_t size)
{
    if (queued == room) {
        room = room ? room * 2 : 1024;
        queue = realloc(queue, room * sizeof *queue);
    }
    queue[queued].data = malloc(size + 1);
    memcpy(queue[queued].data, data, size);
    queue[queued++].size = size;
}

static void keep(const struct input *in)
{
    const uint8_t head[4] = {(uint8_t)in->size, (uint8_t)(in->size >> 8)};
    FILE *f = fopen(out_path, "ab");

    fwrite(head, 1, sizeof head, f);
    fwrite(in->data, 1, in->size, f);
    fclose(f);
}

static void keep_costly(const struct input *in)
{
    static int n;
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s.costly.%d", out_path, n++);
    f = fopen(path, "wb");
    fwrite(in->data, 1, in->size, f);
    fclose(f);
}

/* The number of checks that the input kills. */
static int try(struct input *in, bool grown)
{
    struct trial base;
    int killed = 0, check[TRIAL_MET];
    bool met = false;

    trial_run(-1, run, in, &base);
    if (!trial_cheap(&base, base.code != 'o', in->size, "an input")) {
        keep_costly(in);
        return 0;
    }
    for (int i = 0; i < base.n_met; i++)
        met |= !trial_ever[base.met[i]];
    if (base.code != 'u')
        killed = trial_kill(&base, run, in, differs, check);
    if (grown && in->size <= LARGEST) {
        if (killed > 0)
            keep(in);
        if (killed > 0 || met || trial_new(base.seen))
            push(in->data, in->size);
    } else {
        trial_new(base.seen);
    }
    return killed;
}

static void read_file(const char *path)
{
    const size_t length = strlen(path);
    const bool pack = length > 8 && strcmp(path + length - 8, ".pack.gz") == 0;
    static uint8_t data[1 << 20];
    uint8_t head[4];
    gzFile f = gzopen(path, "rb");
    int n;

    if (!f)
        return;
    while (pack && gzread(f, head, 4) == 4) {
        n = head[0] | head[1] << 8 | head[2] << 16;
        if (gzread(f, data, (unsigned)n) != n)
            break;
        push(data, (size_t)n);
    }
    if (!pack && (n = gzread(f, data, sizeof data)) > 0 && n < 40000)
        push(data, (size_t)n);
    gzclose(f);
}

/* The checks that the inputs of a folder kill; *n counts those tried. */
static void try_folder(const char *path, long *n, int *killed)
{
    static uint8_t data[LARGEST + 1];
    DIR *folder = opendir(path);
    struct dirent *e;

    while (folder && (e = readdir(folder)) != NULL) {
        struct input in = {data, 0};
        char name[4096];
        FILE *f;

        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        f = e->d_name[0] == '.' ? NULL : fopen(name, "rb");
        if (!f)
            continue;
        in.size = fread(data, 1, sizeof data, f);
        fclose(f);
        if (in.size > LARGEST)
            continue;
        (*n)++;
        *killed += try(&in, true);
    }
    if (folder)
        closedir(folder);
}

int main(int argc, char **argv)
{
    const double seconds = atof(argv[1]);
    long runs = 0, given = 0;
    int begun = 0, grown = 0, more = 0;

    if (argc < 6)
        return 1;
    trial_load(argv[2]);
    out_path = argv[3];
    trial_state = (unsigned)atoi(argv[4]) * 2654435761u + 1;
    for (int i = 5; i < argc; i++)
        read_file(argv[i]);
    const size_t base = queued;
    for (size_t i = 0; i < base; i++)
        begun += try(&queue[i], false);
    for (int i = 5; i < argc; i++)
        try_folder(argv[i], &given, &more);
    const double from = trial_cpu();
    for (; queued > 0 && trial_cpu() - from < seconds; runs++) {
        const size_t i = runs % 2 == 0 && queued > base
                             ? base + trial_random((unsigned)(queued - base))
                             : trial_random((unsigned)queued);
        const size_t limit = queue[i].size + 256;
        struct input in = {malloc(limit), queue[i].size};

        memcpy(in.data, queue[i].data, in.size);
        for (unsigned k = 1 + trial_random(4); k > 0; k--)
            in.size = LLVMFuzzerCustomMutator && trial_random(8) > 0
                          ? LLVMFuzzerCustomMutator(in.data, in.size, limit,
                                                    trial_random(1u << 31))
                          : LLVMFuzzerMutate(in.data, in.size, limit);
        grown += try(&in, true);
        free(in.data);
    }
    trial_save(argv[2]);
    printf("%zu inputs kill %d checks, %ld of a folder %d more, %ld mutants %d "
           "more\n",
           base, begun, given, more, runs, grown);
    return 0;
}
