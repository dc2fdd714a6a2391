# SPDX-License-Identifier: Apache-2.0
# AX_HARDENING: --disable-hardening.  Options of compiler and linker that make a
# fault of memory end the process instead of serving an attacker: stack
# protector, stack clash protection, checked calls of libc (_FORTIFY_SOURCE),
# shadow stack and branch tracking (CET), relocations read-only before main(),
# position-independent programs.  Each is tried; the sanitizers, which have
# checks of their own, go without _FORTIFY_SOURCE.  Sets hardening to the list.
AC_DEFUN([AX_HARDENING_CFLAG], [
ax_saved_cflags=$CFLAGS
CFLAGS="$CFLAGS -Werror $1"
AC_MSG_CHECKING([whether $CC takes $1])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]],
    [[char b[8]; memset(b, 0, sizeof b); return b[0];]])],
  [AC_MSG_RESULT([yes])
  hardening="$hardening $1"
  AM_CFLAGS="$AM_CFLAGS $1" AM_CXXFLAGS="$AM_CXXFLAGS $1"
  CFLAGS=$ax_saved_cflags
  $2],
  [AC_MSG_RESULT([no])
  CFLAGS=$ax_saved_cflags
  $3])
])

AC_DEFUN([AX_HARDENING], [
AC_ARG_ENABLE([hardening], [AS_HELP_STRING([--disable-hardening],
  [without stack protector, _FORTIFY_SOURCE, CET, RELRO and PIE])],
  [], [enable_hardening=yes])
hardening= PIE_LDFLAGS=
AS_IF([test "$enable_hardening" = yes], [
  AX_HARDENING_CFLAG([-fstack-protector-strong])
  AX_HARDENING_CFLAG([-fstack-clash-protection])
  AX_HARDENING_CFLAG([-fcf-protection])
  # Without optimisation glibc warns that it checks nothing.
  AS_IF([test "$enable_sanitizers$enable_thread_sanitizer$enable_fuzzing" = nonono], [
    AS_CASE([" $CFLAGS "], [*" -O0 "*], [],
      [*" -O"*], [AX_HARDENING_CFLAG(
        [-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3], [],
        [AX_HARDENING_CFLAG([-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2])])])])
  ax_saved_ldflags=$LDFLAGS
  for ax_flag in -Wl,-z,relro -Wl,-z,now; do
    LDFLAGS="$ax_saved_ldflags $ax_flag"
    AC_MSG_CHECKING([whether the linker takes $ax_flag])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes])
      hardening="$hardening $ax_flag" AM_LDFLAGS="$AM_LDFLAGS $ax_flag"],
      [AC_MSG_RESULT([no])])
  done
  LDFLAGS=$ax_saved_ldflags
  AC_MSG_CHECKING([whether $CC makes position-independent programs by itself])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
    #ifndef __PIE__
    #error "not by default"
    #endif]], [])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
    AM_CFLAGS="$AM_CFLAGS -fPIE" AM_CXXFLAGS="$AM_CXXFLAGS -fPIE"
    PIE_LDFLAGS=-pie])
  hardening="$hardening PIE"
])
AC_SUBST([PIE_LDFLAGS])
])
