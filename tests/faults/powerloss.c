/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loss of power leaves, from the records of record.c:
 *
 *     powerloss LOG TARGET OLD TRIALS
 *
 * TARGET is the file that matters, OLD a copy of it from before the program ran
 * ("-": there was none).  After each record the power fails TRIALS times.  Of
 * what was written to a file since its last fsync() any sectors of 512 bytes
 * are there and the others are zeros; of the names that changed since the
 * folder's last fsync() any change is there, in one half of the trials the
 * first ones alone (a journal that is ordered), in the other any.  TARGET must
 * then be one of the whole files that it was while the program ran, not an
 * older one than the last whose name had reached the disk.  Exit 1 if it is
 * not.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR    512
#define MAX_FILES 4096

struct bytes {
    unsigned char *data;
    size_t size;
};

struct record {
    char kind;
    uint64_t inode;
    char *old, *name;
    size_t at;
    struct bytes data;
};

struct log {
    struct record *record;
    size_t count;
};

/* What TARGET was, in order; NULL data: not there. */
struct generation {
    struct bytes content;
    size_t named;   /* the record that gave it its name */
    size_t durable; /* the record after which it is on the disk */
};

static unsigned state = 1;

static unsigned any(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % n;
}

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "powerloss: out of memory\n");
        exit(2);
    }
    return p;
}

static void damaged(const char *path, size_t record)
{
    fprintf(stderr, "%s: record %zu is malformed\n", path, record);
    exit(2);
}

static struct bytes read_file(const char *path)
{
    struct bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");
    long n;

    if (!f || fseek(f, 0, SEEK_END) < 0 || (n = ftell(f)) < 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    rewind(f);
    b.size = (size_t)n;
    b.data = need(malloc(b.size + 1));
    if (fread(b.data, 1, b.size, f) != b.size)
        exit(2);
    b.data[b.size] = '\0';
    fclose(f);
    return b;
}

/* One line in text[0 .. bytes), without its newline. */
static void parse(const char *path, char *line, struct record *r, size_t index)
{
    char *end = line + 1, *tab;

    r->kind = line[0];
    if (line[0] != 'D' && line[0] != 'U')
        r->inode = strtoull(line + 1, &end, 10);
    if (line[0] == 'W' || line[0] == 'T')
        r->at = strtoull(end, &end, 10);
    if (line[0] == 'W')
        r->data.size = strtoull(end, &end, 10);
    if (strchr("CLRU", line[0]) && *end == ' ')
        r->name = end + 1;
    if (line[0] == 'R') {
        tab = r->name ? strchr(r->name, '\t') : NULL;
        if (!tab)
            damaged(path, index);
        *tab = '\0';
        r->old = r->name;
        r->name = tab + 1;
    }
    if (!strchr("CLRUWTSD", line[0]) ||
        (strchr("CLRU", line[0]) && r->name == NULL))
        damaged(path, index);
}

static struct log read_log(const char *path)
{
    const struct bytes all = read_file(path);
    struct log l = {NULL, 0};
    size_t at = 0, room = 0;

    while (at < all.size) {
        char *line = (char *)all.data + at;
        char *end = memchr(line, '\n', all.size - at);
        struct record *r;

        if (!end)
            damaged(path, l.count);
        *end = '\0';
        at += (size_t)(end - line) + 1;
        if (l.count == room) {
            room = 2 * room + 64;
            l.record = need(realloc(l.record, room * sizeof *l.record));
        }
        r = &l.record[l.count];
        memset(r, 0, sizeof *r);
        parse(path, line, r, l.count++);
        if (r->kind != 'W')
            continue;
        if (r->data.size >= all.size - at)
            damaged(path, l.count);
        r->data.data = all.data + at;
        at += r->data.size + 1;
    }
    return l;
}

/* ---- a file's content ---------------------------------------------- */

static void extend(struct bytes *b, size_t size)
{
    if (size <= b->size)
        return;
    b->data = need(realloc(b->data, size));
    memset(b->data + b->size, 0, size - b->size);
    b->size = size;
}

/* Writes the sectors of a record that reached the disk: each, or any. */
static void apply_write(struct bytes *b, const struct record *r, bool each)
{
    size_t done = 0;

    if (each || any(2))
        extend(b, r->at + r->data.size);
    while (done < r->data.size) {
        const size_t at = r->at + done;
        size_t n = SECTOR - at % SECTOR;

        if (n > r->data.size - done)
            n = r->data.size - done;
        if (each || any(2)) {
            extend(b, at + n);
            memcpy(b->data + at, r->data.data + done, n);
        }
        done += n;
    }
}

/* What the disk has of a file when the power fails before record `end`. */
static struct bytes content(const struct log *l, uint64_t inode, size_t end,
                            bool all)
{
    struct bytes b = {need(malloc(1)), 0};
    size_t synced = 0;

    for (size_t i = 0; i < end; i++)
        if (l->record[i].kind == 'S' && l->record[i].inode == inode)
            synced = i;
    for (size_t i = 0; i < end; i++) {
        const struct record *r = &l->record[i];
        const bool there = all || i < synced;

        if (r->inode != inode)
            continue;
        if (r->kind == 'W')
            apply_write(&b, r, there);
        if (r->kind == 'T' && (there || any(2))) {
            extend(&b, r->at);
            b.size = r->at;
        }
    }
    return b;
}

/* ---- names --------------------------------------------------------- */

enum { OLD_FILE = 0 }; /* in the place of an inode: what was there before */

struct name {
    bool there;
    uint64_t inode;
};

static bool changes_names(const struct record *r)
{
    return strchr("CLRU", r->kind) != NULL;
}

static void apply_name(const struct record *r, const char *target,
                       struct name *n)
{
    if (r->kind == 'U' || (r->kind == 'R' && strcmp(r->old, target) == 0))
        if (strcmp(r->kind == 'U' ? r->name : r->old, target) == 0)
            n->there = false;
    if (r->kind != 'U' && strcmp(r->name, target) == 0) {
        n->there = true;
        n->inode = r->inode;
    }
}

/* What TARGET names when the power fails before record `end`; ordered: changes
 * reach the disk in their order. */
static struct name name_of(const struct log *l, const char *target, bool before,
                           size_t end, bool ordered)
{
    struct name n = {before, OLD_FILE};
    size_t synced = 0;
    bool lost = false;

    for (size_t i = 0; i < end; i++)
        if (l->record[i].kind == 'D')
            synced = i;
    for (size_t i = 0; i < end; i++) {
        if (!changes_names(&l->record[i]))
            continue;
        if (i > synced && any(2)) {
            lost = ordered;
            continue;
        }
        if (i <= synced || !lost)
            apply_name(&l->record[i], target, &n);
    }
    return n;
}

/* ---- the check ----------------------------------------------------- */

static bool equal(const struct bytes *a, const struct bytes *b)
{
    if (!a->data || !b->data)
        return !a->data && !b->data;
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* What TARGET is after each record that names it. */
static size_t generations(const struct log *l, const char *target,
                          struct bytes old, struct generation *out)
{
    struct name n = {old.data != NULL, OLD_FILE};
    size_t count = 1;

    out[0] = (struct generation){old, 0, 0};
    for (size_t i = 0; i < l->count && count < MAX_FILES; i++) {
        const struct record *r = &l->record[i];

        if (r->kind == 'D')
            for (size_t k = 0; k < count; k++)
                if (out[k].durable == SIZE_MAX)
                    out[k].durable = i;
        if (!changes_names(r) || strcmp(r->name, target) != 0)
            continue;
        apply_name(r, target, &n);
        out[count] = (struct generation){{NULL, 0}, i, SIZE_MAX};
        if (n.there)
            out[count].content = content(l, n.inode, i, true);
        count++;
    }
    return count;
}

/* One loss of power; true if TARGET is what it may be. */
static bool survives(const struct log *l, const char *target,
                     const struct generation *g, size_t count, size_t end,
                     bool ordered)
{
    const struct name n =
        name_of(l, target, g[0].content.data != NULL, end, ordered);
    struct bytes found = {NULL, 0};
    bool ok = false;
    size_t i, least = 0;

    if (n.there)
        found = n.inode == OLD_FILE ? g[0].content
                                    : content(l, n.inode, end, false);
    for (i = 0; i < count; i++)
        if (g[i].durable < end)
            least = i;
    for (i = least; i < count; i++)
        ok = ok ||
             ((i == 0 || g[i].named < end) && equal(&found, &g[i].content));
    if (found.data != g[0].content.data)
        free(found.data);
    return ok;
}

int main(int argc, char **argv)
{
    static struct generation g[MAX_FILES];
    struct bytes old = {NULL, 0};
    size_t count, wrong = 0, trials = 0;
    struct log l;

    if (argc != 5) {
        fprintf(stderr, "usage: powerloss LOG TARGET OLD TRIALS\n");
        return 2;
    }
    l = read_log(argv[1]);
    if (strcmp(argv[3], "-") != 0)
        old = read_file(argv[3]);
    count = generations(&l, argv[2], old, g);
    for (size_t end = 0; end <= l.count; end++)
        for (int i = 0; i < atoi(argv[4]); i++, trials++)
            if (!survives(&l, argv[2], g, count, end, i % 2 == 0) &&
                wrong++ == 0)
                printf("power lost after record %zu of %zu: %s is torn\n", end,
                       l.count, argv[2]);
    printf("%zu records, %zu files, %zu losses of power, %zu torn; the last "
           "file is %son the disk\n",
           l.count, count - 1, trials, wrong,
           count > 1 && g[count - 1].durable == SIZE_MAX ? "not " : "");
    return wrong > 0 || count < 2 || g[count - 1].durable == SIZE_MAX;
}
