# SPDX-License-Identifier: Apache-2.0
# AX_WITH_MPI: --with-mpi.
#
# MPI starts train on several hosts.  It has no common binary interface, so the
# program is linked with the one that it is to run under: only where asked for.
# Found through pkg-config (Open MPI, MPICH), or by its compiler.
AC_DEFUN([AX_WITH_MPI], [
AC_ARG_VAR([MPICC], [compiler of MPI])
AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi],
  [training on several hosts, started by mpirun (default: no)])],
  [], [with_mpi=no])
have_mpi=no
AS_IF([test "$with_mpi" != no], [
  AS_IF([test -z "$MPICC"],
    [PKG_CHECK_MODULES([MPI], [ompi-c], [have_mpi=yes],
      [PKG_CHECK_MODULES([MPI], [mpich], [have_mpi=yes], [:])])])
  AS_IF([test "$have_mpi" = no], [
    AC_PATH_PROGS([MPICC], [mpicc])
    AS_IF([test -n "$MPICC"], [
      MPI_CFLAGS=`"$MPICC" -showme:compile 2>/dev/null || "$MPICC" -compile-info | sed 's/^@<:@^ @:>@* //'`
      MPI_LIBS=`"$MPICC" -showme:link 2>/dev/null || "$MPICC" -link-info | sed 's/^@<:@^ @:>@* //'`])])
  # The headers are not ours to warn about.
  MPI_CFLAGS=`AS_ECHO(["$MPI_CFLAGS"]) | sed 's/-I */-isystem /g'`
  mpi_save_CPPFLAGS=$CPPFLAGS mpi_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
  LIBS="$LIBS $MPI_LIBS"
  AC_MSG_CHECKING([for MPI])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
    [[MPI_Init(0, 0);]])], [have_mpi=yes], [have_mpi=no])
  AC_MSG_RESULT([$have_mpi])
  CPPFLAGS=$mpi_save_CPPFLAGS LIBS=$mpi_save_LIBS
  AS_IF([test "$have_mpi" = no],
    [AC_MSG_ERROR([MPI was asked for and was not found (see config.log)])],
    [AC_DEFINE([HAVE_MPI], [1], [Define to train on several hosts.])])])
AM_CONDITIONAL([HAVE_MPI], [test "$have_mpi" = yes])
AC_SUBST([MPI_CFLAGS])
AC_SUBST([MPI_LIBS])
])
