# SPDX-License-Identifier: Apache-2.0
# AX_WITH_NCCL: --with-nccl[=DIR], after AX_WITH_CUDA.
#
# NCCL, through which train uses several GPUs, is opened when first asked for;
# only its header is needed here.
AC_DEFUN([AX_WITH_NCCL], [
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@],
  [training on several GPUs (default: where CUDA and nccl.h are found)])],
  [], [with_nccl=auto])
have_nccl=no
NCCL_CFLAGS=
AS_IF([test "$with_nccl" != no && test "$have_cuda" = yes], [
  AS_CASE([$with_nccl], [auto|yes], [], [NCCL_CFLAGS="-isystem $with_nccl/include"])
  nccl_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $NCCL_CFLAGS $CUDA_CFLAGS"
  AC_MSG_CHECKING([for the header of NCCL 2.10 or newer])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2,10,0)
#error too old
#endif
]], [[]])], [have_nccl=yes])
  AC_MSG_RESULT([$have_nccl])
  CPPFLAGS=$nccl_save_CPPFLAGS])
AS_IF([test "$have_nccl" = yes],
  [AC_DEFINE([HAVE_NCCL], [1], [Define to train on several GPUs.])],
  [AS_CASE([$with_nccl], [auto|no], [],
    [AC_MSG_ERROR([NCCL was asked for and was not found])])])
AM_CONDITIONAL([HAVE_NCCL], [test "$have_nccl" = yes])
AC_SUBST([NCCL_CFLAGS])
])
