# SPDX-License-Identifier: Apache-2.0
# AX_WITH_ONEDNN: --with-onednn[=DIR].  oneDNN (libdnnl) has fast CPU kernels;
# it is used where found, in addition to our own.  One file of C++ catches its
# exceptions; C programs link that with the C++ run-time library.
AC_DEFUN([AX_WITH_ONEDNN], [
AC_ARG_WITH([onednn], [AS_HELP_STRING([--with-onednn@<:@=DIR@:>@],
  [further CPU kernels through oneDNN (default: where found)])],
  [], [with_onednn=auto])
have_onednn=no
AS_IF([test "$with_onednn" != no], [
  onednn_save_CPPFLAGS=$CPPFLAGS
  onednn_save_LIBS=$LIBS
  AS_CASE([$with_onednn], [auto|yes], [], [
    ONEDNN_CFLAGS="-I$with_onednn/include"
    ONEDNN_LIBS="-L$with_onednn/lib"])
  CPPFLAGS="$CPPFLAGS $ONEDNN_CFLAGS"
  ONEDNN_LIBS="$ONEDNN_LIBS -ldnnl"
  LIBS="$ONEDNN_LIBS $LIBS"
  AC_MSG_CHECKING([for oneDNN])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <dnnl.h>]],
    [[const dnnl_version_t *v = dnnl_version(); return !v;]])],
    [have_onednn=yes])
  AC_MSG_RESULT([$have_onednn])
  AS_IF([test "$have_onednn" = yes], [
    AC_MSG_CHECKING([whether $CXX compiles what catches exceptions of oneDNN])
    AC_LANG_PUSH([C++])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <new>
      #include <dnnl.h>]], [[try { return !dnnl_version(); }
      catch (const std::bad_alloc &) { return 1; }]])], [], [have_onednn=no])
    AC_LANG_POP([C++])
    AC_MSG_RESULT([$have_onednn])
    ONEDNN_LIBS="$ONEDNN_LIBS -lstdc++"])
  CPPFLAGS=$onednn_save_CPPFLAGS
  LIBS=$onednn_save_LIBS
  AS_IF([test "$have_onednn" = no], [
    AS_IF([test "$with_onednn" != auto],
      [AC_MSG_ERROR([oneDNN was asked for and was not found])])
    ONEDNN_CFLAGS= ONEDNN_LIBS=])
])
AS_IF([test "$have_onednn" = yes],
  [AC_DEFINE([HAVE_ONEDNN], [1], [Define to build the oneDNN backend.])])
AM_CONDITIONAL([HAVE_ONEDNN], [test "$have_onednn" = yes])
AC_SUBST([ONEDNN_CFLAGS])
AC_SUBST([ONEDNN_LIBS])
])
