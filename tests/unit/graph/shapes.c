/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules: one line a case.  The expected shapes were compared with those
 * of onnx.shape_inference (opsets 15 to 19); where that is known to be
 * wrong they are PyTorch's (ceil_mode) and onnxruntime's (resize by 0.7).
 * Cases that expect a message are wrong for what they compute, whether or not
 * onnx's inference notices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"
#include "tests/unit/graph/seed.h"
#include "tests/unit/test.h"

/* Shapes stand with spaces between them, "?" is a free dimension, "-" an
 * absent input, "scalar" rank 0, ":I64" behind a shape its type (F32 without);
 * "*" is a tensor of unknown rank.  A result that begins with '!' is a part of
 * the error text. */
struct shape_case {
    const char *op, *attr, *in, *out;
};

static const struct shape_case conv_cases[] = {
    {"conv", "{}", "1x3x8x8 4x3x3x3", "1x4x6x6"},
    {"conv", "{\"stride\":[2,2],\"pad\":[3,3,3,3]}", "?x3x224x224 64x3x7x7 64",
     "?x64x112x112"},
    {"conv", "{\"stride\":2,\"pad\":3}", "2x3x224x224 64x3x7x7",
     "2x64x112x112"},
    {"conv", "{\"pad\":[1,2,3,4]}", "1x1x5x5 1x1x3x3", "1x1x7x9"},
    {"conv", "{\"dilation\":[2,3]}", "1x1x10x10 1x1x3x3", "1x1x6x4"},
    {"conv", "{\"groups\":4,\"pad\":[1,1,1,1]}", "1x8x5x5 12x2x3x3",
     "1x12x5x5"},
    {"conv", "{\"groups\":32}", "1x32x9x9 32x1x3x3 32", "1x32x7x7"},
    {"conv", "{\"auto_pad\":\"same_upper\",\"stride\":[2,2]}",
     "1x3x7x8 2x3x3x3", "1x2x4x4"},
    {"conv", "{\"auto_pad\":\"same_lower\",\"stride\":[3,2]}",
     "1x3x7x8 2x3x2x2", "1x2x3x4"},
    {"conv", "{\"auto_pad\":\"valid\",\"stride\":[2,2]}", "1x3x7x8 2x3x3x3",
     "1x2x3x3"},
    {"conv", "{\"pad\":[1,1],\"stride\":[2]}", "1x3x9 4x3x3", "1x4x5"},
    {"conv", "{\"stride\":[1,2,2],\"pad\":[1,0,1,1,0,1]}",
     "1x2x4x8x8 3x2x3x3x3", "1x3x4x3x4"},
    {"conv", "{}", "?x3x?x? 4x3x3x3", "?x4x?x?"},
    {"conv", "{\"auto_pad\":\"same_upper\"}", "1x3x8x? 4x3x3x3", "1x4x8x?"},
    {"conv", "{\"pad\":[1,1,1,1]}", "1x3x8x8 *", "1x?x?x?"},
    {"conv", "{}", "* 4x3x3x3", "?x4x?x?"},
    {"conv", "{}", "* *", "*"},
    {"conv", "{}", "1x3x2x2 4x3x3x3", "!does not fit into 2"},
    {"conv", "{}", "1x4x8x8 4x3x3x3", "!does not fit input 1x4x8x8"},
    {"conv", "{}", "1x3x8x8 4x3x3", "!does not fit"},
    {"conv", "{\"groups\":3}", "1x3x8x8 4x1x3x3", "!do not divide into 3"},
    {"conv", "{\"groups\":0}", "1x3x8x8 4x3x3x3", "!groups 0"},
    {"conv", "{\"stride\":[0,1]}", "1x3x8x8 4x3x3x3", "!stride 0"},
    {"conv", "{\"dilation\":[1,0]}", "1x3x8x8 4x3x3x3", "!dilation 0"},
    {"conv", "{\"pad\":[-1,0,0,0]}", "1x3x8x8 4x3x3x3", "!pad -1"},
    {"conv", "{\"stride\":[0]}", "* *", "!stride 0"},
    {"conv", "{}", "1x3x8x8 4x3x3x3 5", "!bias is 5, expected 4"},
    {"conv", "{}", "1x3x8x8 4x3x3x3 4x1", "!bias is 4x1"},
    {"conv", "{}", "3x8 4x3", "!rank 3, 4 or 5"},
    {"conv", "{}", "1x3x8x8 4x3x0x3", "!window is empty"},
    {"conv", "{}", "1x3x8x8:I32 4x3x3x3", "!floating type"},
    {"conv", "{\"dilation\":[16000000,1]}", "1x1x8x8 1x1x9000000000000000x1",
     "!too large"},
    {"conv_transpose", "{\"stride\":[2,2]}", "1x4x5x5 4x3x2x2", "1x3x10x10"},
    {"conv_transpose", "{\"stride\":[2,2],\"pad\":[1,1,1,1]}",
     "1x4x5x5 4x3x3x3 3", "1x3x9x9"},
    {"conv_transpose",
     "{\"stride\":[2,2],\"pad\":[1,1,1,1],\"output_pad\":[1,1]}",
     "1x4x5x5 4x3x3x3", "1x3x10x10"},
    {"conv_transpose", "{\"stride\":[2,3],\"dilation\":[2,1]}",
     "1x4x5x5 4x3x3x3", "1x3x13x15"},
    {"conv_transpose", "{\"groups\":2}", "1x4x5x5 4x3x3x3", "1x6x7x7"},
    {"conv_transpose", "{\"auto_pad\":\"same_upper\",\"stride\":[2,2]}",
     "1x4x5x6 4x3x3x3", "1x3x10x12"},
    {"conv_transpose", "{\"stride\":[3,2],\"output_size\":[10,8]}",
     "1x1x3x3 1x2x3x3", "1x2x10x8"},
    {"conv_transpose", "{\"stride\":[2]}", "?x4x5 4x3x4", "?x3x12"},
    {"conv_transpose", "{}", "1x4x?x5 4x3x2x2", "1x3x?x6"},
    {"conv_transpose", "{\"pad\":[4,4,4,4]}", "1x4x5x5 4x3x2x2",
     "!leave nothing"},
    {"conv_transpose", "{}", "1x5x5x5 4x3x2x2", "!does not fit"},
    {"conv_transpose", "{\"output_pad\":[-1]}", "1x4x5x5 4x3x2x2",
     "!output_pad -1"},
};

static const struct shape_case pool_cases[] = {
    {"pool", "{\"kind\":\"max\",\"window\":[3,3],\"stride\":[2,2]}", "1x2x8x8",
     "1x2x3x3"},
    {"pool", "{\"window\":[3,3],\"stride\":[2,2],\"ceil_mode\":true}",
     "1x2x8x8", "1x2x4x4"},
    /* The third window would start in the right padding: it goes. */
    {"pool",
     "{\"window\":[2,2],\"stride\":[2,2],\"pad\":[1,1,1,1],"
     "\"ceil_mode\":true}",
     "1x2x3x3", "1x2x2x2"},
    {"pool", "{\"window\":[1,1],\"stride\":[2,2],\"ceil_mode\":true}",
     "1x2x4x4", "1x2x2x2"},
    {"pool",
     "{\"window\":[3,3],\"stride\":[2,2],\"pad\":[1,1,1,1],"
     "\"ceil_mode\":true}",
     "1x2x112x112", "1x2x57x57"},
    {"pool", "{\"window\":[3,3],\"stride\":[2,2],\"pad\":[1,1,1,1]}",
     "?x2x112x112", "?x2x56x56"},
    {"pool", "{\"window\":[3,3],\"dilation\":[2,2]}", "1x2x9x9", "1x2x5x5"},
    {"pool",
     "{\"kind\":\"average\",\"window\":[2,2],\"stride\":[2,2],"
     "\"auto_pad\":\"same_upper\"}",
     "1x2x7x5", "1x2x4x3"},
    {"pool", "{\"window\":[2],\"stride\":[2]}", "1x2x7", "1x2x3"},
    {"pool", "{\"window\":[2,2,2]}", "1x2x4x5x6", "1x2x3x4x5"},
    {"pool", "{\"kind\":\"average\"}", "?x512x7x7", "?x512x1x1"},
    {"pool", "{}", "1x512x?x?", "1x512x1x1"},
    {"pool", "{\"window\":[2,2]}", "*", "*"},
    {"pool", "{\"window\":[2,0]}", "1x2x4x4", "!window 0"},
    {"pool", "{\"window\":[5,5]}", "1x2x4x4", "!does not fit"},
    {"pool", "{\"window\":[2,2],\"stride\":[1,0]}", "1x2x4x4", "!stride 0"},
    {"pool", "{\"window\":[2,2]}", "2x4", "!rank 3, 4 or 5"},
    {"pool", "{\"kind\":\"median\"}", "1x2x4x4",
     "!kind 'median' is not known (supported: max, average)"},
};

static const struct shape_case product_cases[] = {
    {"dense", "{}", "?x512 1000x512 1000", "?x1000"},
    {"dense", "{}", "2x7x7x96 384x96", "2x7x7x384"},
    {"dense", "{}", "?x512 *", "?x?"},
    {"dense", "{}", "1x511 1000x512", "!does not fit input 1x511"},
    {"dense", "{}", "1x512 1000x512 999", "!bias is 999, expected 1000"},
    {"matmul", "{}", "2x3 3x4", "2x4"},
    {"matmul", "{\"transpose_a\":true}", "3x2 3x4", "2x4"},
    {"matmul", "{\"transpose_b\":true}", "5x1x2x3 6x4x3", "5x6x2x4"},
    {"matmul", "{}", "?x8x49x32 1x8x32x49", "?x8x49x49"},
    {"matmul", "{}", "2x3 4x3", "!do not fit together"},
    {"matmul", "{}", "3 3x4", "!rank 2 or more"},
    {"matmul", "{}", "2x2x3 3x3x4", "!do not broadcast"},
    {"batch_norm", "{}", "?x8x4x4 8 8 8 8", "?x8x4x4"},
    {"batch_norm", "{}", "?x8x4x4 8 8 8 7", "!variance is 7, expected 8"},
    {"batch_norm", "{\"epsilon\":-1}", "1x8 8 8 8 8", "!epsilon -1"},
    {"batch_norm", "{}", "8 8 8 8 8", "!has no channels"},
    {"scale_shift", "{}", "?x8x4x4 - 8", "?x8x4x4"},
    {"scale_shift", "{}", "?x8x4x4 9", "!scale is 9, expected 8"},
    {"layer_norm", "{}", "1x49x96 96 96", "1x49x96"},
    {"layer_norm", "{\"axis\":1}", "1x49x96 49x96", "1x49x96"},
    {"layer_norm", "{\"axis\":-2}", "1x49x96 96", "!from axis 1 on"},
    {"layer_norm", "{\"axis\":3}", "1x49x96 96", "!axis 3 is outside"},
    {"group_norm", "{\"groups\":4}", "1x8x4x4 8 8", "1x8x4x4"},
    {"group_norm", "{\"groups\":3}", "1x8x4x4 8 8", "!do not divide into 3"},
    {"lrn", "{\"size\":5}", "1x96x55x55", "1x96x55x55"},
    {"lrn", "{\"size\":0}", "1x96x55x55", "!size 0"},
    {"lrn", "{\"size\":5,\"alpha\":1e60}", "1x96x55x55", "!alpha"},
    {"lrn", "{\"size\":5,\"beta\":-1e60}", "1x96x55x55", "!beta"},
    {"lrn", "{\"size\":5,\"bias\":1e60}", "1x96x55x55", "!bias"},
};

static const struct shape_case pointwise_cases[] = {
    {"unary", "{\"kind\":\"relu\"}", "?x3x4", "?x3x4"},
    {"unary", "{\"kind\":\"sigmoid\"}", "2:I64", "!floating type"},
    {"unary", "{\"kind\":\"not\"}", "2x2:BOOL", "2x2:BOOL"},
    {"unary", "{\"kind\":\"not\"}", "2x2", "!BOOL is needed"},
    {"unary", "{\"kind\":\"swoosh\"}", "2", "!kind 'swoosh' is not known"},
    {"prelu", "{}", "1x64x8x8 64x1x1", "1x64x8x8"},
    {"prelu", "{}", "64x8x8 1x64x1x1", "!does not broadcast to input"},
    {"binary", "{\"kind\":\"add\"}", "?x64x7x7 ?x64x7x7", "?x64x7x7"},
    {"binary", "{\"kind\":\"mul\"}", "?x64x7x7 ?x64x1x1", "?x64x7x7"},
    {"binary", "{\"kind\":\"sub\"}", "2x3x4 4", "2x3x4"},
    {"binary", "{\"kind\":\"div\"}", "3x1 1x4", "3x4"},
    {"binary", "{\"kind\":\"add\"}", "scalar 2x2", "2x2"},
    {"binary", "{\"kind\":\"add\"}", "?x4 3x1", "3x4"},
    {"binary", "{\"kind\":\"add\"}", "2x3 2x4", "!do not broadcast"},
    {"binary", "{\"kind\":\"add\"}", "2x3 2x3:I64", "!do not agree"},
    {"binary", "{\"kind\":\"less\"}", "2x3 3", "2x3:BOOL"},
    {"binary", "{\"kind\":\"and\"}", "2x3 3", "!BOOL is needed"},
    {"where", "{}", "2x1:BOOL 1x3 scalar", "2x3"},
    {"where", "{}", "2x1 1x3 scalar", "!condition is F32"},
    {"cast", "{\"to\":\"F16\"}", "2x?", "2x?:F16"},
    {"cast", "{}", "2x?", "!cast to no type"},
    {"dropout", "{}", "2x3:I64", "2x3:I64"},
    {"softmax", "{}", "?x1000", "?x1000"},
    {"softmax", "{\"axis\":2}", "?x1000", "!axis 2 is outside"},
    {"reduce", "{\"kind\":\"mean\",\"axes\":[2,3]}", "?x64x7x7", "?x64"},
    {"reduce", "{\"axes\":[-1,-2],\"keep_dims\":true}", "?x64x7x7", "?x64x1x1"},
    {"reduce", "{\"kind\":\"max\"}", "2x3", "scalar"},
    {"reduce", "{\"keep_dims\":true}", "2x3", "1x1"},
    {"reduce", "{\"axes\":[1,-1]}", "2x3", "!axis -1 is given twice"},
    {"reduce", "{\"axes\":[2]}", "2x3", "!axis 2 is outside"},
    {"arg_reduce", "{\"axis\":1}", "?x10x4", "?x4:I64"},
    {"arg_reduce", "{\"axis\":-1,\"keep_dims\":true}", "?x10x4", "?x10x1:I64"},
};

static const struct shape_case arrange_cases[] = {
    {"concat", "{\"axis\":1}", "?x2x4x4 ?x3x4x4 ?x5x4x4", "?x10x4x4"},
    {"concat", "{\"axis\":-1}", "2x3 2x?", "2x?"},
    {"concat", "{\"axis\":0}", "2x? 2x3", "4x3"},
    {"concat", "{\"axis\":1}", "2x3x4 2x3x5", "!does not fit behind"},
    {"concat", "{\"axis\":1}", "2x3 2x3x1", "!does not fit behind"},
    {"concat", "{\"axis\":2}", "2x3 2x3", "!axis 2 is outside"},
    {"concat", "{}", "2x3 2x3:I64", "!input 1 is I64"},
    {"split", "{\"axis\":1,\"sizes\":[2,3,5]}", "?x10x4", "?x2x4 ?x3x4 ?x5x4"},
    {"split", "{\"axis\":1}", "?x10", "?x5 ?x5"},
    {"split", "{\"axis\":-1}", "1x7", "1x3 1x3 1x1"},
    {"split", "{\"axis\":1}", "1x?", "1x? 1x?"},
    {"split", "{\"axis\":1,\"sizes\":[2,3]}", "1x10", "!sizes add up to 5"},
    {"split", "{\"axis\":1,\"sizes\":[12,-2]}", "1x10", "!out of range"},
    {"split", "{\"axis\":1}", "1x2", "!do not split into 4 parts"},
    {"slice", "{\"axes\":[1],\"begin\":[1],\"end\":[3]}", "?x4", "?x2"},
    {"slice", "{\"axes\":[-1],\"begin\":[-3],\"end\":[-1]}", "2x5", "2x2"},
    {"slice", "{\"axes\":[0,1],\"begin\":[0,1],\"step\":[1,2]}", "?x9", "?x4"},
    {"slice",
     "{\"axes\":[1],\"begin\":[-1],\"end\":[-9007199254740992],"
     "\"step\":[-1]}",
     "2x5", "2x5"},
    {"slice", "{\"axes\":[0],\"begin\":[4],\"end\":[0],\"step\":[-2]}", "5",
     "2"},
    {"slice", "{\"axes\":[0],\"begin\":[3],\"end\":[1]}", "5", "0"},
    {"slice", "{\"axes\":[0],\"begin\":[7],\"end\":[9]}", "5", "0"},
    {"slice", "{\"axes\":[0],\"step\":[0]}", "5", "!step 0"},
    {"slice", "{\"axes\":[1],\"begin\":[0]}", "5", "!axis 1 is outside"},
    {"slice", "{\"axes\":[0,0],\"begin\":[0,0]}", "5", "!given twice"},
    {"slice", "{\"axes\":[0,1],\"begin\":[0]}", "5x5",
     "!begin has 1 entries, the list before it 2"},
    {"gather", "{\"axis\":0}", "5x3 2x2:I64", "2x2x3"},
    {"gather", "{\"axis\":-1}", "?x3 scalar:I32", "?"},
    {"gather", "{\"axis\":1}", "?x3x4 7:I64", "?x7x4"},
    {"gather", "{\"axis\":1}", "?x3x4 7", "!indices are F32"},
    {"depth_to_space", "{\"block\":2}", "?x12x3x4", "?x3x6x8"},
    {"depth_to_space", "{\"block\":3}", "1x12x3x4", "!do not divide"},
    {"depth_to_space", "{}", "1x12x3x4", "!block 0"},
    {"space_to_depth", "{\"block\":2}", "?x3x6x8", "?x12x3x4"},
    {"space_to_depth", "{\"block\":2}", "1x3x5x8", "!does not divide"},
};

static const struct shape_case shape_cases[] = {
    {"reshape", "{\"shape\":[0,-1]}", "?x64x7x7", "?x3136"},
    {"nms", "{\"most\":3}", "1x6x4 1x2x6", "6x3:I64"},
    {"nms", "{\"most\":3}", "2x6x4 1x2x6", "!expected NxBx4 and NxCxB"},
    {"nms", "{\"most\":3}", "1x6x4 1x2x7", "!expected NxBx4 and NxCxB"},
    {"nms", "{\"most\":3}", "1x6x5 1x2x6", "!expected NxBx4 and NxCxB"},
    {"nms", "{\"most\":3}", "6x4 1x2x6", "!expected NxBx4 and NxCxB"},
    {"nms", "{\"most\":3}", "1x6x4 2x6", "!expected NxBx4 and NxCxB"},
    {"nms", "{\"most\":-1}", "1x6x4 1x2x6", "!most -1"},
    {"reshape", "{\"shape\":[-1,3136]}", "?x64x7x7", "?x3136"},
    {"reshape", "{\"shape\":[-1,2,32,7,7]}", "4x64x7x7", "4x2x32x7x7"},
    {"reshape", "{\"shape\":[0,2,32,0,-1]}", "4x64x7x6", "4x2x32x6x7"},
    {"reshape", "{\"shape\":[2,0,-1]}", "4x3x8", "2x3x16"},
    {"reshape", "{\"shape\":[]}", "1x1", "scalar"},
    {"reshape", "{\"shape\":[6]}", "2x3", "6"},
    {"reshape", "{\"shape\":[5]}", "2x3", "!cannot have shape 5"},
    {"reshape", "{\"shape\":[-1,4]}", "2x3", "!cannot have shape"},
    {"reshape", "{\"shape\":[-1,-1]}", "2x3", "!two sizes are -1"},
    {"reshape", "{\"shape\":[2,3,0]}", "2x3", "!copies dimension 2"},
    {"reshape", "{\"shape\":[-2]}", "2x3", "!that is missing"},
    {"reshape", "{\"shape\":[-99]}", "2x3", "!out of range"},
    {"reshape", "{\"shape\":[-1,-4,-3]}", "2x24 5x4x6", "2x6x4"},
    {"reshape", "{\"shape\":[0,-3,-4]}", "2x24 5x?x6", "2x?x6"},
    {"reshape", "{\"shape\":[0,-3,-4]}", "2x24 5x4x7", "!cannot have shape"},
    {"reshape", "{\"shape\":[0,-5]}", "2x24 5x4x7", "!dimension 3 of"},
    {"flatten", "{}", "?x64x7x7", "?x3136"},
    {"flatten", "{\"axis\":0}", "2x3x4", "1x24"},
    {"flatten", "{\"axis\":-1}", "2x3x4", "6x4"},
    {"flatten", "{\"axis\":3}", "2x3x4", "24x1"},
    {"flatten", "{\"axis\":4}", "2x3x4", "!axis 4 is outside"},
    {"squeeze", "{\"axes\":[2,3]}", "?x64x1x1", "?x64"},
    {"squeeze", "{\"axes\":[-1]}", "2x1", "2"},
    {"squeeze", "{}", "1x3x1", "3"},
    {"squeeze", "{}", "?x3x1", "*"},
    {"squeeze", "{\"axes\":[1]}", "2x3", "!has size 3, not 1"},
    {"squeeze", "{\"axes\":[1]}", "2x0", "!has size 0, not 1"},
    {"unsqueeze", "{\"axes\":[0,-1]}", "2x3", "1x2x3x1"},
    {"unsqueeze", "{\"axes\":[3]}", "2x3", "!axis 3 is outside"},
    {"unsqueeze", "{\"axes\":[1,1]}", "2x3", "!given twice"},
    {"unsqueeze", "{\"axes\":[0]}", "1x1x1x1x1x1x1x1", "!rank 9"},
    {"transpose", "{\"order\":[0,2,3,1]}", "?x3x4x5", "?x4x5x3"},
    {"transpose", "{}", "2x3x4", "4x3x2"},
    {"transpose", "{\"order\":[0,0,1]}", "2x3x4", "!no permutation"},
    {"transpose", "{\"order\":[1,0]}", "2x3x4", "!order has 2 entries"},
    {"expand", "{\"shape\":[2,3,4]}", "3x1", "2x3x4"},
    {"expand", "{\"shape\":[1,-1]}", "2x3", "2x3"},
    {"expand", "{\"shape\":[4]}", "2x3", "!do not broadcast"},
    {"tile", "{\"repeats\":[1,2]}", "?x3", "?x6"},
    {"tile", "{\"repeats\":[2]}", "2x3", "!1 repeats"},
    {"tile", "{\"repeats\":[9007199254740992,2]}", "4x3", "!too large"},
    {"tile", "{\"repeats\":[0,9007199254740992]}", "4x3", "!too large"},
    {"pad", "{\"pad\":[0,0,1,2,0,0,3,4]}", "?x3x5x5", "?x3x9x11"},
    {"pad", "{\"pad\":[0,-1,0,-2]}", "2x5", "2x2"},
    {"pad", "{\"mode\":\"reflect\",\"pad\":[0,2,0,2]}", "2x3", "2x7"},
    {"pad", "{\"mode\":\"reflect\",\"pad\":[0,3,0,0]}", "2x3", "!out of range"},
    {"pad", "{\"pad\":[0,-4,0,0]}", "2x3", "!crop more"},
    {"pad", "{\"pad\":[1,2,3]}", "2x3", "!as many ends as begins"},
    {"resize", "{\"scale\":[1,1,2,2]}", "?x3x5x7", "?x3x10x14"},
    {"resize", "{\"scale\":[1,1,0.6,0.5]}", "1x3x5x7", "1x3x3x3"},
    {"resize", "{\"scale\":[0.7]}", "10", "7"},
    {"resize", "{\"size\":[0,0,3,4]}", "?x3x5x7", "?x3x3x4"},
    {"resize", "{\"scale\":[2,2]}", "?x3", "?x6"},
    {"resize", "{\"size\":[3,4]}", "1x3x5x7", "!2 sizes"},
    {"resize", "{\"scale\":[1,0]}", "1x3", "!scale 0"},
    {"resize", "{\"scale\":[1,0.1]}", "1x3", "!makes 3 elements into 0"},
    {"resize", "{\"mode\":\"lanczos\"}", "1x3", "!mode 'lanczos'"},
};

/* ---- the machine behind the table ---------------------------------- */

/* Reads one shape.  False for "-". */
static bool parse_type(const char *text, struct graph_type *out)
{
    const char *type = strchr(text, ':');
    char *end;

    out->dtype = type != NULL ? dtype_find(type + 1) : INFER_F32;
    out->rank = 0;
    if (strcmp(text, "-") == 0)
        return false;
    if (text[0] == '*')
        out->rank = -1;
    if (text[0] == '*' || strncmp(text, "scalar", 6) == 0)
        return true;
    for (;;) {
        if (*text == '?') {
            out->dim[out->rank++] = -1;
            text++;
        } else {
            out->dim[out->rank++] = strtoll(text, &end, 10);
            assert_true(end > text);
            text = end;
        }
        if (*text != 'x')
            return true;
        text++;
    }
}

static void format_value(const struct graph_value *v, char *text, size_t bytes)
{
    struct graph_type t = {.rank = v->rank};
    char shape[OP_TEXT];

    memcpy(t.dim, v->dim, sizeof(t.dim));
    snprintf(text, bytes, "%s", v->rank < 0 ? "*" : op_text(&t, shape));
    if (v->dtype != INFER_F32 && v->rank >= 0) {
        strcat(text, ":");
        strcat(text, infer_dtype_name(v->dtype));
    }
}

/* The case as the JSON of a graph. */
static cJSON *case_to_json(const struct shape_case *c, int n_out)
{
    char words[512], *save = NULL, *word, name[16];
    cJSON *json = cJSON_CreateObject(), *node = cJSON_CreateObject();
    cJSON *inputs = cJSON_CreateArray(), *in = cJSON_CreateArray();
    cJSON *out = cJSON_CreateArray(), *outputs = cJSON_CreateArray();
    int i = 0;

    snprintf(words, sizeof(words), "%s", c->in);
    for (word = strtok_r(words, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        struct graph_type t;
        cJSON *input, *shape;

        if (!parse_type(word, &t)) {
            cJSON_AddItemToArray(in, cJSON_CreateNull());
            continue;
        }
        snprintf(name, sizeof(name), "i%d", i++);
        input = cJSON_CreateObject();
        cJSON_AddStringToObject(input, "name", name);
        cJSON_AddStringToObject(input, "dtype", infer_dtype_name(t.dtype));
        if (t.rank >= 0) {
            shape = cJSON_AddArrayToObject(input, "shape");
            for (int k = 0; k < t.rank; k++)
                cJSON_AddItemToArray(shape,
                                     cJSON_CreateNumber((double)t.dim[k]));
        }
        cJSON_AddItemToArray(inputs, input);
        cJSON_AddItemToArray(in, cJSON_CreateString(name));
    }
    for (i = 0; i < n_out; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        cJSON_AddItemToArray(out, cJSON_CreateString(name));
        cJSON_AddItemToArray(outputs, cJSON_CreateString(name));
    }
    cJSON_AddStringToObject(node, "name", "node");
    cJSON_AddStringToObject(node, "op", c->op);
    cJSON_AddItemToObject(node, "attr", cJSON_Parse(c->attr));
    cJSON_AddItemToObject(node, "in", in);
    cJSON_AddItemToObject(node, "out", out);
    cJSON_AddNumberToObject(json, "infer", 1);
    cJSON_AddItemToObject(json, "inputs", inputs);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "nodes"), node);
    cJSON_AddItemToObject(json, "outputs", outputs);
    return json;
}

static int count_words(const char *text)
{
    int n = 1;

    for (; *text != '\0'; text++)
        n += *text == ' ';
    return n;
}

/* Whether the error text has one of the parts behind '!' ("!a|!b"). */
static bool mentions(const char *text, const char *parts)
{
    char copy[256], *save = NULL, *part;

    snprintf(copy, sizeof(copy), "%s", parts);
    for (part = strtok_r(copy, "|", &save); part != NULL;
         part = strtok_r(NULL, "|", &save))
        if (strstr(text, part + 1) != NULL)
            return true;
    return false;
}

static void run_case(const struct shape_case *c)
{
    bool refused = c->out[0] == '!';
    /* The refused splits have as many outputs as their cases need. */
    int n_out = !refused                      ? count_words(c->out)
                : strstr(c->out, "4 parts")   ? 4
                : strcmp(c->op, "split") == 0 ? 2
                                              : 1;
    cJSON *json = case_to_json(c, n_out);
    struct graph *g = NULL;
    struct infer_error err;
    char got[512] = "", one[256];
    int status = graph_from_json(json, &err, &g), i;

    cJSON_Delete(json);
    if (status == INFER_OK)
        status = graph_validate(g, &err);
    if (status == INFER_OK)
        status = graph_infer_shapes(g, NULL, &err);
    if (status < 0) {
        graph_free(g);
        if (!refused || !mentions(err.text, c->out) ||
            (g != NULL && strstr(err.text, "node 'node'") == NULL))
            fail_msg("%s %s of %s: expected %s, got: %s", c->op, c->attr, c->in,
                     c->out, err.text);
        return;
    }
    for (i = 0; i < n_out; i++) {
        format_value(&g->value[g->output[i]], one, sizeof(one));
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s",
                 i > 0 ? " " : "", one);
    }
    graph_free(g);
    if (strcmp(got, c->out) != 0)
        fail_msg("%s %s of %s: expected %s, got %s", c->op, c->attr, c->in,
                 c->out, got);
}

#define RUN(cases)                                                             \
    for (size_t i = 0; i < COUNT(cases); i++)                                  \
    run_case(&cases[i])

TEST(test_conv)
{
    RUN(conv_cases);
}

TEST(test_pool)
{
    RUN(pool_cases);
}

TEST(test_product)
{
    RUN(product_cases);
}

TEST(test_pointwise)
{
    RUN(pointwise_cases);
}

TEST(test_arrange)
{
    RUN(arrange_cases);
}

TEST(test_shape)
{
    RUN(shape_cases);
}

/* ---- any numbers --------------------------------------------------- */

/* Copies text with some of its numbers replaced by extreme ones. */
static void disturb(const char *text, char *out, size_t bytes)
{
    static const char *const extremes[] = {
        "0",          "1",          "-1",
        "2",          "7",          "16777216",
        "16777217",   "2147483647", "-2147483648",
        "4294967296", "1e15",       "9007199254740992",
        "-3",         "0.5",        "-9007199254740992",
    };
    size_t used = 0;

    while (*text != '\0' && used + 24 < bytes) {
        size_t digits = strspn(text, "-0123456789.");

        /* "-" alone is an absent input, and in names digits stay. */
        if (digits > 0 && (digits > 1 || *text != '-') && rand() % 4 == 0) {
            used +=
                (size_t)snprintf(out + used, bytes - used, "%s",
                                 extremes[(size_t)rand() % (COUNT(extremes))]);
            text += digits;
        } else {
            size_t length = digits > 0 ? digits : 1;

            memcpy(out + used, text, length);
            used += length;
            text += length;
        }
    }
    out[used] = '\0';
}

/* Whatever the numbers are, an answer or a message, and no more: overflow and
 * stray accesses are for the sanitizers to see. */
static void disturb_cases(const struct shape_case *c, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        char attr[512], in[512];
        struct shape_case other = c[i];
        struct infer_error err;
        struct graph *g;
        cJSON *json;

        disturb(c[i].attr, attr, sizeof(attr));
        disturb(c[i].in, in, sizeof(in));
        /* Types behind a colon hold digits that are none. */
        other.attr = attr;
        other.in = strchr(c[i].in, ':') != NULL ? c[i].in : in;
        json = case_to_json(&other, 1 + rand() % 3);
        if (graph_from_json(json, &err, &g) == 0) {
            if (graph_validate(g, &err) == 0)
                assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
            graph_free(g);
        }
        cJSON_Delete(json);
    }
}

#define DISTURB(cases) disturb_cases(cases, COUNT(cases))

TEST(test_any_numbers)
{
    int i;

    seed_start();
    for (i = 0; i < 50; i++) {
        DISTURB(conv_cases);
        DISTURB(pool_cases);
        DISTURB(product_cases);
        DISTURB(pointwise_cases);
        DISTURB(arrange_cases);
        DISTURB(shape_cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_product),     cmocka_unit_test(test_pointwise),
        cmocka_unit_test(test_arrange),     cmocka_unit_test(test_shape),
        cmocka_unit_test(test_any_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
