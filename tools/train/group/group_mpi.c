/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that mpirun has started, on one host or several. */
#include <mpi.h>

#include "kernels/base/error.h"
#include "tools/train/group/group.h"

int group_mpi_run(group_work *work, void *user)
{
    struct group g = {.mpi = true};
    MPI_Comm host;
    int code;

    /* MPI's default: errors end the program. */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g.size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, g.rank,
                        MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &g.local);
    MPI_Comm_size(host, &g.local_size);
    MPI_Comm_free(&host);
    code = work(&g, user);
    /* The others may be waiting for this one. */
    if (code != 0)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
}

int group_mpi_share(void *data, size_t bytes, struct infer_error *err)
{
    if (MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        return error_set(err, INFER_EDEVICE, "MPI: the broadcast failed");
    return 0;
}
