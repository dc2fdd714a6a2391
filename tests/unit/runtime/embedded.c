/* SPDX-License-Identifier: Apache-2.0 */
/* A program that links the static library and has functions of its own by the
 * names that the library uses inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/infer.h"

int json_parse(void);
int error_set(void);
int graph_new(void);
int memory_size(void);
int kern_row_count(void);
int checked_count(void);

static int called(const char *name)
{
    fprintf(stderr, "the library calls the program's %s()\n", name);
    exit(1);
}

int json_parse(void)
{
    return called("json_parse");
}

int error_set(void)
{
    return called("error_set");
}

int graph_new(void)
{
    return called("graph_new");
}

int memory_size(void)
{
    return called("memory_size");
}

int kern_row_count(void)
{
    return called("kern_row_count");
}

int checked_count(void)
{
    return called("checked_count");
}

int main(void)
{
    struct infer_model *model = NULL;
    struct infer_image image;
    struct infer_error err;
    char text[4096];

    if (infer_model_open("/dev/null", &err, &model) != INFER_EIO ||
        strstr(err.text, "/dev/null") == NULL ||
        infer_image_decode("no picture", 10, 0, &err, &image) !=
            INFER_EUNSUPPORTED ||
        infer_doctor(text, sizeof(text)) == 0) {
        fprintf(stderr, "unexpected: %s\n", err.text);
        return 1;
    }
    return 0;
}
