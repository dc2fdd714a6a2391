/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: reading fields of the layer at hand. */
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

static int bad_value(struct caffe *c, const char *name, struct layers_text t,
                     const char *what)
{
    return layers_fail(&c->b, INFER_EFORMAT, "%s: '%.*s' is %s", name,
                       LAYERS_SHOW(t), what);
}

int64_t caffe_int(struct caffe *c, int message, const char *name, int64_t min,
                  int64_t max, int64_t otherwise)
{
    int64_t v = otherwise;

    caffe_ints(c, message, name, min, max, 1, &v);
    return v;
}

float caffe_float(struct caffe *c, int message, const char *name,
                  float otherwise)
{
    float v = otherwise;

    caffe_floats(c, message, name, 1, &v);
    return v;
}

bool caffe_bool(struct caffe *c, int message, const char *name, bool otherwise)
{
    const int i = caffe_find(&c->text, message, name, -1);
    struct layers_text t;

    if (i < 0)
        return otherwise;
    t = c->text.field[i].value;
    if (layers_text_is(t, "true") || layers_text_is(t, "1") ||
        layers_text_is(t, "True") || layers_text_is(t, "t"))
        return true;
    if (!layers_text_is(t, "false") && !layers_text_is(t, "0") &&
        !layers_text_is(t, "False") && !layers_text_is(t, "f"))
        bad_value(c, name, t, "not true or false");
    return false;
}

int caffe_word(struct caffe *c, int message, const char *name,
               const char *const *words, int otherwise)
{
    const int field = caffe_find(&c->text, message, name, -1);
    struct layers_text t;
    int64_t number;
    int i;

    if (field < 0)
        return otherwise;
    t = c->text.field[field].value;
    for (i = 0; words[i] != NULL; i++)
        if (layers_text_is(t, words[i]) ||
            (layers_text_int(t, 0, 1000, &number) && number == i))
            return i;
    layers_fail(&c->b, INFER_EUNSUPPORTED, "%s: %.*s is not supported", name,
                LAYERS_SHOW(t));
    return otherwise;
}

int caffe_ints(struct caffe *c, int message, const char *name, int64_t min,
               int64_t max, int max_count, int64_t *out)
{
    int i, n = 0;

    for (i = caffe_find(&c->text, message, name, -1); i >= 0;
         i = caffe_find(&c->text, message, name, i), n++) {
        const struct layers_text t = c->text.field[i].value;

        if (n == max_count)
            return layers_fail(&c->b, INFER_EUNSUPPORTED,
                               "%s has more than %d values", name, max_count);
        if (!layers_text_int(t, min, max, &out[n]))
            return bad_value(c, name, t,
                             "no whole number, or outside its range");
    }
    return n;
}

int caffe_floats(struct caffe *c, int message, const char *name, int max_count,
                 float *out)
{
    int i, n = 0;

    for (i = caffe_find(&c->text, message, name, -1); i >= 0;
         i = caffe_find(&c->text, message, name, i), n++) {
        const struct layers_text t = c->text.field[i].value;

        if (n == max_count)
            return layers_fail(&c->b, INFER_EUNSUPPORTED,
                               "%s has more than %d values", name, max_count);
        if (!layers_text_float(t, &out[n]))
            return bad_value(c, name, t, "no finite number");
    }
    return n;
}

void caffe_pair(struct caffe *c, const char *name, const char *h, const char *w,
                int min, int otherwise, int out[2])
{
    int64_t v[2] = {otherwise, otherwise};
    const int n = caffe_ints(c, c->param, name, min, CAFFE_MAX_STEP, 2, v);

    if (n == 1)
        v[1] = v[0];
    out[0] = (int)caffe_int(c, c->param, h, min, CAFFE_MAX_STEP, v[0]);
    out[1] = (int)caffe_int(c, c->param, w, min, CAFFE_MAX_STEP, v[1]);
}

int caffe_axis(struct caffe *c, int message, const char *name, int rank,
               int otherwise)
{
    int64_t axis = caffe_int(c, message, name, -rank, rank - 1, otherwise);

    if (axis < 0)
        axis += rank;
    if (axis < 0 || axis >= rank)
        layers_fail(&c->b, INFER_EFORMAT, "axis %lld of %d dimensions",
                    (long long)axis, rank);
    return c->b.status < 0 ? 0 : (int)axis;
}
