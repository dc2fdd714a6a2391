/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's While over time steps: written out where the file tells the
 * number of iterations, refused by name elsewhere. */
#include "tests/unit/graph/data.h"

#include "tests/unit/weights/keras_run.h"
#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

#define STEPS 4

/* ---- writing ------------------------------------------------------- */

/* A node of `field` with up to four inputs. */
static void add(struct pb_message *to, unsigned field, const char *name,
                const char *op, const char *const *in)
{
    struct pb_message node = {0};

    pb_text(&node, 1, name);
    pb_text(&node, 2, op);
    for (int i = 0; i < 4 && in[i]; i++)
        pb_text(&node, 3, in[i]);
    pb_nested(to, field, &node);
}
#define ADD(to, field, name, op, ...)                                          \
    add(to, field, name, op, (const char *const[5]){__VA_ARGS__, NULL})

static void add_ints(struct pb_message *to, unsigned field, const char *name,
                     int n, const int *value)
{
    def_int32s(to, field, name, 1, (const int64_t[]){n}, value, n);
}

/* A scalar; 0 is written as no value at all. */
static void add_int(struct pb_message *to, unsigned field, const char *name,
                    int value)
{
    def_int32s(to, field, name, 0, NULL, &value, value != 0);
}

static void add_ret(struct pb_message *function, const char *name,
                    const char *value)
{
    struct pb_message entry = {0};

    pb_text(&entry, 1, name);
    pb_text(&entry, 2, value);
    pb_nested(function, 4, &entry);
}

/* OpDef: arguments a0, a1, ... and results r0, r1, ... */
static void add_signature(struct pb_message *function, const char *name,
                          int n_in, int n_out)
{
    struct pb_message def = {0};
    char word[16];

    pb_text(&def, 1, name);
    for (int i = 0; i < n_in + n_out; i++) {
        struct pb_message arg = {0};

        snprintf(word, sizeof word, "%c%d", i < n_in ? 'a' : 'r',
                 i < n_in ? i : i - n_in);
        pb_text(&arg, 1, word);
        pb_nested(&def, i < n_in ? 2 : 3, &arg);
    }
    pb_nested(function, 1, &def);
}

/* Variables: 0 counter, 1 output list, 2 state, 3 input list.  Each step:
 * state = state + item, output[counter] = state. */
static struct pb_message body(int increment)
{
    struct pb_message f = {0};

    add_signature(&f, "body", 4, 4);
    add_int(&f, 3, "one", increment);
    add_ints(&f, 3, "shape", 1, (const int[]){-1});
    ADD(&f, 3, "item", "TensorListGetItem", "a3", "a0", "shape:output:0");
    ADD(&f, 3, "state", "AddV2", "a2", "item:item:0");
    ADD(&f, 3, "set", "TensorListSetItem", "a1", "a0", "state:z:0");
    ADD(&f, 3, "count", "AddV2", "a0", "one:output:0");
    add_ret(&f, "r0", "count:z:0");
    add_ret(&f, "r1", "set:output_handle:0");
    add_ret(&f, "r2", "state:z:0");
    add_ret(&f, "r3", "a3");
    return f;
}

/* counter < bound, or a question about the state. */
static struct pb_message condition(int bound, bool of_data)
{
    struct pb_message f = {0};

    add_signature(&f, "condition", 4, 1);
    add_int(&f, 3, "bound", bound);
    ADD(&f, 3, "less", "Less", of_data ? "a2" : "a0", "bound:output:0");
    add_ret(&f, "r0", "less:z:0");
    return f;
}

static void add_function(struct pb_message *library, struct pb_message f)
{
    pb_nested(library, 1, &f);
}

static void def_function(struct pb_message *node, const char *attr,
                         const char *name)
{
    struct pb_message value = {0}, list = {0};

    pb_text(&list, 1, name);
    pb_nested(&value, 10, &list);
    def_attr(node, attr, &value);
}

/* x is N,STEPS,3; y the sums up to each step as STEPS,N,3. */
static struct pb_message network(int bound, int increment, bool of_data)
{
    const int64_t dim[3] = {-1, STEPS, 3}, state[2] = {1, 3};
    const float zero = 0;
    struct pb_message m = {0}, library = {0}, node = {0};

    def_placeholder(&m, "x", 3, dim);
    add_ints(&m, 1, "perm", 3, (const int[]){1, 0, 2});
    ADD(&m, 1, "time", "Transpose", "x", "perm");
    add_ints(&m, 1, "shape", 1, (const int[]){-1});
    add_int(&m, 1, "steps", STEPS);
    add_int(&m, 1, "first", 0);
    def_floats(&m, "state", 2, state, &zero, 1);
    ADD(&m, 1, "items", "TensorListFromTensor", "time", "shape");
    ADD(&m, 1, "out", "TensorListReserve", "shape", "steps");
    pb_text(&node, 1, "loop");
    pb_text(&node, 2, "StatelessWhile");
    pb_text(&node, 3, "first");
    pb_text(&node, 3, "out");
    pb_text(&node, 3, "state");
    pb_text(&node, 3, "items");
    def_function(&node, "cond", "condition");
    def_function(&node, "body", "body");
    pb_nested(&m, 1, &node);
    ADD(&m, 1, "y", "TensorListStack", "loop:1", "shape");
    add_function(&library, body(increment));
    add_function(&library, condition(bound, of_data));
    pb_nested(&m, 2, &library);
    return m;
}

/* ---- tests --------------------------------------------------------- */

TEST(test_sums)
{
    const int64_t in[3] = {1, STEPS, 3}, out[3] = {STEPS, 1, 3};
    struct constant *x = constant_new(INFER_F32, 3, in);
    struct constant *y = constant_new(INFER_F32, 3, out);
    struct pb_message m = network(STEPS, 1, false);
    struct weights_dict io;
    struct infer_error err;
    struct graph *g;

    assert_true(x && y);
    for (int t = 0; t < STEPS; t++)
        for (int c = 0; c < 3; c++) {
            float *to = (float *)(void *)y->data;
            ((float *)(void *)x->data)[3 * t + c] = (float)(10 * t + c + 1);
            to[3 * t + c] =
                (t ? to[3 * (t - 1) + c] : 0) + (float)(10 * t + c + 1);
        }
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", x, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", y, &err), 0);
    g = def_read_graph(&m);
    assert_true(run_graph(g, &io) <= 1e-6);
    graph_free(g);
    weights_dict_clear(&io);
}

static void network_refused(struct pb_message m, int code, const char *words)
{
    def_refused(&m, code, words);
}

TEST(test_refused)
{
    /* What the state is decides, the counter never moves, an item is read that
     * is not there, one is missing at the end. */
    network_refused(network(STEPS, 1, true), INFER_EUNSUPPORTED,
                    "number of iterations");
    network_refused(network(STEPS, 0, false), INFER_EUNSUPPORTED, "too often");
    network_refused(network(STEPS + 1, 1, false), INFER_EFORMAT,
                    "item 4 of a list of 4");
    network_refused(network(STEPS - 1, 1, false), INFER_EUNSUPPORTED,
                    "item 3 of the list is read and was not set");
}

/* A loop in a loop in a loop: small files must not become large graphs. */
TEST(test_nested)
{
    struct pb_message m = {0}, library = {0};

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 3});
    add_int(&m, 1, "first", 0);
    for (int depth = 0; depth < 8; depth++) {
        struct pb_message f = {0}, node = {0};
        char name[16], inner[16];

        snprintf(name, sizeof name, "body%d", depth);
        snprintf(inner, sizeof inner, "body%d", depth + 1);
        add_signature(&f, name, 2, 2);
        add_int(&f, 3, "zero", 0);
        add_int(&f, 3, "one", 1);
        ADD(&f, 3, "count", "AddV2", "a0", "one:output:0");
        if (depth < 7) {
            pb_text(&node, 1, "loop");
            pb_text(&node, 2, "While");
            pb_text(&node, 3, "zero:output:0");
            pb_text(&node, 3, "a1");
            def_function(&node, "cond", "condition");
            def_function(&node, "body", inner);
            pb_nested(&f, 3, &node);
        }
        add_ret(&f, "r0", "count:z:0");
        add_ret(&f, "r1", depth < 7 ? "loop:output:1" : "a1");
        add_function(&library, f);
    }
    {
        struct pb_message f = {0}, node = {0};

        add_signature(&f, "condition", 2, 1);
        add_int(&f, 3, "bound", 1000);
        ADD(&f, 3, "less", "Less", "a0", "bound:output:0");
        add_ret(&f, "r0", "less:z:0");
        add_function(&library, f);
        pb_text(&node, 1, "loop");
        pb_text(&node, 2, "While");
        pb_text(&node, 3, "first");
        pb_text(&node, 3, "x");
        def_function(&node, "cond", "condition");
        def_function(&node, "body", "body0");
        pb_nested(&m, 1, &node);
    }
    ADD(&m, 1, "y", "Relu", "loop:1");
    pb_nested(&m, 2, &library);
    def_refused(&m, INFER_EUNSUPPORTED, "called too often");
}

TEST(test_damaged)
{
    struct pb_message m = network(STEPS, 1, false);

    def_damage(&m, 8, 3); /* the first byte makes it another format */
    pb_free(&m);
}

/* Items 0 and 1 of the rows of x; item `at` is set to a row of sevens, in a
 * list that may grow, before item `read` is read, or all are where it is -1. */
static struct pb_message list_network(int at, bool grows, int read)
{
    const float seven = 7;
    struct pb_message m = {0}, node, value = {0};

    def_placeholder(&m, "x", 2, (const int64_t[]){2, 3});
    add_ints(&m, 1, "shape", 1, (const int[]){-1});
    add_int(&m, 1, "at", at);
    add_int(&m, 1, "read", read);
    def_floats(&m, "sevens", 1, (const int64_t[]){3}, &seven, 1);
    ADD(&m, 1, "items", "TensorListFromTensor", "x", "shape");
    node = def_node("set", "TensorListSetItem", "items", "at");
    pb_text(&node, 3, "sevens");
    pb_int(&value, 5, grows);
    def_attr(&node, "resize_if_index_out_of_bounds", &value);
    pb_nested(&m, 1, &node);
    if (read >= 0)
        ADD(&m, 1, "item", "TensorListGetItem", "set", "read", "shape");
    else
        ADD(&m, 1, "item", "TensorListStack", "set", "shape");
    ADD(&m, 1, "y", "Relu", "item");
    return m;
}

static void check_list(int at, int read, int rank, const int64_t *dim,
                       const float *expected)
{
    const int64_t in[2] = {2, 3};
    struct constant *x = constant_new(INFER_F32, 2, in);
    struct constant *y = constant_new(INFER_F32, rank, dim);
    struct pb_message m = list_network(at, true, read);
    struct graph *g = def_read_graph(&m);
    struct weights_dict io;
    struct infer_error err;

    assert_true(x && y);
    for (int i = 0; i < 6; i++)
        ((float *)(void *)x->data)[i] = (float)i;
    memcpy(y->data, expected, y->bytes);
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", x, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", y, &err), 0);
    assert_true(run_graph(g, &io) <= 1e-6);
    graph_free(g);
    weights_dict_clear(&io);
}

TEST(test_lists)
{
    check_list(1, -1, 2, (const int64_t[]){2, 3},
               (const float[]){0, 1, 2, 7, 7, 7});
    check_list(2, -1, 2, (const int64_t[]){3, 3},
               (const float[]){0, 1, 2, 3, 4, 5, 7, 7, 7});
    check_list(2, 1, 1, (const int64_t[]){3}, (const float[]){3, 4, 5});
    network_refused(list_network(2, false, -1), INFER_EFORMAT,
                    "item 2 of a list of 2");
    network_refused(list_network(-1, true, -1), INFER_EFORMAT,
                    "item -1 of a list of 2");
    network_refused(list_network(1, true, 2), INFER_EFORMAT,
                    "item 2 of a list of 2");
    network_refused(list_network(3, true, 2), INFER_EUNSUPPORTED,
                    "item 2 of the list is read and was not set");
    network_refused(list_network(1 << 20, true, 0), INFER_EUNSUPPORTED,
                    "item 1048576 of a list; at most 4096 items");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nested), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
