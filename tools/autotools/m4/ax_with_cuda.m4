# SPDX-License-Identifier: Apache-2.0
# AX_WITH_CUDA: --with-cuda[=DIR], --with-cuda-arch=LIST, --with-cudnn[=DIR].
#
# The CUDA backend is built where nvcc is found.  The runtime is linked
# statically: it opens the driver itself, so that a program starts on a machine
# with none.  cuDNN and cuBLAS are opened when first asked for; only their
# headers are needed here.
#
# Compute capabilities: code for 8.0 also runs on 8.6 and 8.9; 90a has Hopper's
# own instructions; PTX of the highest plain one serves what comes after.
# AX_CUDA_PATHS(nvcc): where its headers and libraries lie.
AC_DEFUN([AX_CUDA_PATHS], [
  cuda_dir=`AS_DIRNAME(["$1"])`/..
  cuda_dir=`cd "$cuda_dir" && pwd -P`
  AS_IF([test "$cuda_dir" = /usr], [CUDA_CFLAGS=],
    [CUDA_CFLAGS="-isystem $cuda_dir/include"])
  CUDA_LIBS="-L$cuda_dir/lib64 -lcudart_static -ldl -lrt -lpthread"
  AS_IF([test ! -d "$cuda_dir/lib64"], [
    CUDA_LIBS="-L$cuda_dir/lib -lcudart_static -ldl -lrt -lpthread"])
])

# Turns the list into nvcc's words, leaving out what this nvcc does not know
# where the list is the default.
AC_DEFUN([AX_CUDA_ARCH], [
  cuda_known=`"$NVCC" --list-gpu-arch 2>/dev/null | sed 's/compute_//'`
  CUDA_GENCODE= cuda_arch= cuda_plain= have_sm90a=no
  for cuda_a in `AS_ECHO(["$with_cuda_arch"]) | tr , ' '`; do
    cuda_number=`AS_ECHO(["$cuda_a"]) | sed 's/[[af]]$//'`
    AS_IF([AS_ECHO([$cuda_known]) | tr ' ' '\n' | grep -qx "$cuda_number"], [
      CUDA_GENCODE="$CUDA_GENCODE -gencode=arch=compute_$cuda_a,code=sm_$cuda_a"
      cuda_arch="$cuda_arch,$cuda_a"
      AS_IF([test "$cuda_a" = "$cuda_number"], [cuda_plain=$cuda_a])
      AS_IF([test "$cuda_a" = 90a], [have_sm90a=yes])],
      [test "$cuda_arch_given" = yes],
      [AC_MSG_ERROR([--with-cuda-arch: $NVCC does not know '$cuda_a'])])
  done
  AS_IF([test -n "$cuda_plain"], [
    CUDA_GENCODE="$CUDA_GENCODE -gencode=arch=compute_$cuda_plain,code=compute_$cuda_plain"])
  cuda_arch=`AS_ECHO(["$cuda_arch"]) | sed 's/^,//'`
  AS_IF([test -z "$cuda_arch"],
    [AC_MSG_ERROR([--with-cuda-arch: no compute capability given])])
])

AC_DEFUN([AX_WITH_CUDA], [
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [further options of the CUDA compiler])
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
  [CUDA kernels (default: where nvcc is found)])], [], [with_cuda=auto])
AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
  [compute capabilities to build for (default: 75,80,90a,100,120)])],
  [cuda_arch_given=yes],
  [cuda_arch_given=no with_cuda_arch="75,80,90a,100,120"])
AC_ARG_WITH([cudnn], [AS_HELP_STRING([--with-cudnn@<:@=DIR@:>@],
  [kernels of cuDNN and cuBLAS (default: where their headers are found)])],
  [], [with_cudnn=auto])
have_cuda=no
# The host code is C in all but name and needs no library of C++; the guarded
# statics of nvcc's stubs are function pointers, the same from every thread.
CUDA_NVCCFLAGS="-O3 -std=c++20 --compiler-options=-Wall,-Wextra,-Wno-missing-field-initializers"
CUDA_NVCCFLAGS="$CUDA_NVCCFLAGS,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
AS_IF([test "$with_cuda" != no], [
  AS_CASE([$with_cuda],
    [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
    [AS_IF([test -z "$NVCC"], [NVCC=$with_cuda/bin/nvcc])])
  AC_MSG_CHECKING([for CUDA])
  AS_IF([test -n "$NVCC" && test -x "$NVCC"], [
    AX_CUDA_PATHS([$NVCC])
    AX_CUDA_ARCH
    # The machine code is mostly the same few loops: packed it is a tenth.
    AS_IF(["$NVCC" --help 2>/dev/null | grep -q compress-mode],
      [CUDA_NVCCFLAGS="$CUDA_NVCCFLAGS --compress-mode=size"],
      [CUDA_NVCCFLAGS="$CUDA_NVCCFLAGS -Xfatbin=-compress-all"])
    cat >conftest.cu <<'_ACEOF'
#include <cuda_runtime.h>
static __global__ void kernel(int *p) { *p = 1; }
extern "C" int conftest_launch(int *p);
extern "C" int conftest_launch(int *p)
{
    kernel<<<1, 1>>>(p);
    return (int)cudaGetLastError();
}
_ACEOF
    AS_IF(["$NVCC" $CUDA_GENCODE $CUDA_NVCCFLAGS $NVCCFLAGS -c conftest.cu -o conftest_cu.o >&AS_MESSAGE_LOG_FD 2>&1], [
      cuda_save_LIBS=$LIBS
      LIBS="conftest_cu.o $CUDA_LIBS $LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[int conftest_launch(int *);]],
        [[return conftest_launch(0);]])], [have_cuda=yes])
      LIBS=$cuda_save_LIBS])
    rm -f conftest.cu conftest_cu.o])
  AC_MSG_RESULT([$have_cuda])
  AS_IF([test "$have_cuda" = no && test "$with_cuda" != auto],
    [AC_MSG_ERROR([CUDA was asked for and was not found (see config.log)])])
])
AS_IF([test "$have_cuda" = yes], [
  AC_DEFINE([HAVE_CUDA], [1], [Define to build the CUDA backend.])
  AC_DEFINE_UNQUOTED([CUDA_ARCH_LIST], ["$cuda_arch"],
    [Compute capabilities that the CUDA kernels are built for.])
  AS_IF([test "$have_sm90a" = yes], [AC_DEFINE([HAVE_CUDA_SM90A], [1],
    [Define where kernels with Hopper's own instructions are built.])])],
  [CUDA_CFLAGS= CUDA_LIBS= cuda_arch=none])
AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])
# One object serves libraries of both kinds: nvcc is slow.
CUDA_LIBTOOLFLAGS=-prefer-pic
AS_IF([test "$enable_shared" = yes], [CUDA_LIBTOOLFLAGS=-shared])
AS_IF([test "$enable_werror" = yes],
  [CUDA_NVCCFLAGS="$CUDA_NVCCFLAGS -Werror all-warnings"])
AC_SUBST([CUDA_CFLAGS])
AC_SUBST([CUDA_LIBS])
AC_SUBST([CUDA_GENCODE])
AC_SUBST([CUDA_NVCCFLAGS])
AC_SUBST([CUDA_LIBTOOLFLAGS])

have_cudnn=no
CUDNN_CFLAGS=
AS_IF([test "$with_cudnn" != no && test "$have_cuda" = yes], [
  AS_CASE([$with_cudnn], [auto|yes], [], [CUDNN_CFLAGS="-isystem $with_cudnn/include"])
  cudnn_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDNN_CFLAGS $CUDA_CFLAGS"
  AC_MSG_CHECKING([for the headers of cuDNN 9 and cuBLAS])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <cudnn.h>
#include <cublasLt.h>
#if CUDNN_MAJOR < 9
#error too old
#endif
]], [[]])], [have_cudnn=yes])
  AC_MSG_RESULT([$have_cudnn])
  CPPFLAGS=$cudnn_save_CPPFLAGS])
AS_IF([test "$have_cudnn" = yes],
  [AC_DEFINE([HAVE_CUDNN], [1], [Define to build the cuDNN backend.])],
  [AS_CASE([$with_cudnn], [auto|no], [],
    [AC_MSG_ERROR([cuDNN was asked for and was not found])])])
AM_CONDITIONAL([HAVE_CUDNN], [test "$have_cudnn" = yes])
AC_SUBST([CUDNN_CFLAGS])
])
