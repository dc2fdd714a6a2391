/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TorchScript reader on one line each: what is accepted, with the shapes of
 * the outputs, and what is refused in which words.
 *
 *     if torch.eq(self.k, 3) : { y = torch.neg(x) } else : { y = x } ; return y
 *
 * is the body of forward() for an input x of 2 x 4; `free` first: of any number
 * of rows; `;` ends a line, { and } enclose a block, single quotes a text.  The
 * object has the attributes k = 3 and list = [2, 5].
 */
#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/lines/tokens.h"

extern const struct weights_format weights_format_torchscript;

static const char object[] = "\x80\x02"
                             "c__torch__\nM\n)\x81}("
                             "X\x01\0\0\0kK\x03"
                             "X\x04\0\0\0list(K\x02K\x05l"
                             "ub.";

static const char class[] =
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  k : int\n"
    "  list : List[int]\n"
    "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    ";

/* The text of a body, indented by its braces. */
static void put_body(struct text *code, const char *line)
{
    char token[128];
    int depth = 4;
    bool fresh = true;

    while (next_token(&line, token, sizeof token)) {
        const bool opens = strcmp(token, "{") == 0,
                   closes = strcmp(token, "}") == 0;

        if (opens || closes || strcmp(token, ";") == 0) {
            depth += opens && depth < 60 ? 2 : closes && depth > 4 ? -2 : 0;
            put(code, "\n%*s", depth, "");
            fresh = true;
            continue;
        }
        for (char *p = token; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        put(code, "%s%s", fresh || strcmp(token, ":") == 0 ? "" : " ", token);
        fresh = false;
    }
    put(code, "\n");
}

static int read_line(const char *line, char *said, size_t room)
{
    const bool is_free = strncmp(line, "free ", 5) == 0;
    const struct weights_input_shape shape = {NULL, 2, {is_free ? -1 : 2, 4}};
    struct weights_file file = {"memory", NULL};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    struct text code = {"", 0};
    struct zipmaker z = {0};
    int rc;

    put(&code, "%s", class);
    put_body(&code, line + (is_free ? 5 : 0));
    zipmaker_add(&z, "n/data.pkl", object, sizeof object - 1);
    zipmaker_add(&z, "n/constants.pkl", "\x80\2).", 4);
    zipmaker_add(&z, "n/code/__torch__.py", code.data, code.bytes);
    zipmaker_end(&z);
    file.blob = help_blob(z.file.data, z.file.bytes);
    weights_options_init(&options);
    weights_import_init(&import);
    options.input_count = 1;
    options.input_shape = &shape;
    rc = weights_format_torchscript.read(&file, &options, &err, &import);
    if (rc == 0)
        rc = graph_infer_shapes(import.graph, NULL, &err);
    if (rc == 0)
        shapes_of(import.graph, said, room);
    else
        snprintf(said, room, "%s", err.text);
    weights_import_clear(&import);
    weights_file_close(&file);
    zipmaker_clear(&z);
    return rc;
}

#define TABLE "tests/unit/weights/lines/torchscript.def"
#include "tests/unit/weights/importer/table.h"
