// SPDX-License-Identifier: Apache-2.0
// The installed headers from C++: a model from memory, a run on views, DLPack.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <infer.h>
#include <infer_detect.h>
#include <infer_dlpack.h>

static void take_line(void *, int, const char *text)
{
    std::printf("log: %s\n", text);
}

int main(int, char **argv)
{
    std::ifstream file(argv[1], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    infer_error err = {};
    infer_model *model = nullptr;
    infer_session *session = nullptr;
    infer_session_options options;
    infer_dlpack_versioned *shared = nullptr;
    infer_tensor in = {}, out = {}, back = {};
    std::vector<float> x(28 * 28);
    int rc = infer_model_open_memory(bytes.data(), bytes.size(), nullptr,
                                     nullptr, &err, &model);

    infer_session_options_init(&options);
    infer_detect_options limits;
    infer_detect_options_init(&limits);
    if (limits.size != sizeof limits || limits.batch != 1)
        return 1;
    options.log = take_line;
    if (rc == 0)
        rc = infer_session_create(model, &options, &err, &session);
    in.dtype = INFER_F32;
    in.rank = 4;
    in.dim[0] = in.dim[1] = 1;
    in.dim[2] = in.dim[3] = 28;
    in.data = x.data();
    in.bytes = x.size() * sizeof x[0];
    if (rc == 0)
        rc = infer_session_run_tensors(session, &in, 1, &out, 1, &err);
    if (rc == 0)
        rc = infer_tensor_to_dlpack(&out, INFER_DLPACK_READ_ONLY, nullptr,
                                    nullptr, &err, &shared);
    if (rc == 0)
        rc = infer_tensor_from_dlpack(&shared->tensor, &err, &back);
    std::printf("%s\n", rc < 0                  ? err.text
                        : back.data == out.data ? "same memory"
                                                : "a copy");
    if (shared)
        shared->deleter(shared);
    infer_session_close(&session);
    infer_model_close(&model);
    return rc < 0;
}
