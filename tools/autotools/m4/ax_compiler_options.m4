# SPDX-License-Identifier: Apache-2.0
# AX_COMPILER_OPTIONS: C11, warnings, --enable-werror, --enable-sanitizers,
# --enable-thread-sanitizer, --enable-fuzzing.
# AX_WITHOUT_WARNING(name): leaves a warning out where the compiler has it.
# Compilers take any -Wno-... quietly, so the warning itself is tried.
AC_DEFUN([AX_WITHOUT_WARNING], [
AS_VAR_PUSHDEF([ax_known], [ax_cv_warning_$1])
ax_saved_cflags=$CFLAGS
CFLAGS="$CFLAGS -Werror -W$1"
AC_CACHE_CHECK([for -W$1], [ax_known],
  [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [AS_VAR_SET([ax_known], [yes])], [AS_VAR_SET([ax_known], [no])])])
CFLAGS=$ax_saved_cflags
AS_VAR_IF([ax_known], [yes], [AM_CFLAGS="$AM_CFLAGS -Wno-$1"])
AS_VAR_POPDEF([ax_known])
])

AC_DEFUN([AX_COMPILER_OPTIONS], [
AS_CASE([$ac_cv_prog_cc_c11], [no],
  [AC_MSG_ERROR([a C11 compiler is needed])])
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
  [treat compiler warnings as errors])], [], [enable_werror=no])
AC_ARG_ENABLE([sanitizers], [AS_HELP_STRING([--enable-sanitizers],
  [build with AddressSanitizer and UndefinedBehaviorSanitizer])],
  [], [enable_sanitizers=no])
AC_ARG_ENABLE([thread-sanitizer], [AS_HELP_STRING([--enable-thread-sanitizer],
  [build with ThreadSanitizer, without OpenMP and oneDNN, which are not built
   for it])],
  [], [enable_thread_sanitizer=no])
AM_CFLAGS="-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes"
AM_CFLAGS="$AM_CFLAGS -Wmissing-prototypes -Wpointer-arith -Wundef -Wwrite-strings"
# Bounded snprintf() into fixed buffers is meant to truncate.
AX_WITHOUT_WARNING([format-truncation])
# clang says where it does not vectorise a loop that asks for it.
AX_WITHOUT_WARNING([pass-failed])
AS_IF([test "$enable_werror" = yes], [AM_CFLAGS="$AM_CFLAGS -Werror"])
AS_IF([test "$enable_sanitizers" = yes], [
  AM_CFLAGS="$AM_CFLAGS -fsanitize=address,undefined -fno-omit-frame-pointer"
  AM_CFLAGS="$AM_CFLAGS -fno-sanitize-recover=undefined"
  AM_LDFLAGS="-fsanitize=address,undefined"])
# Paths of this machine in messages and debugging information become relative.
AC_ARG_ENABLE([reproducible], [AS_HELP_STRING([--enable-reproducible],
  [the same bytes whatever the folders of sources and build are called])],
  [], [enable_reproducible=no])
AS_IF([test "$enable_reproducible" = yes], [
  ax_source=`cd "$srcdir" && pwd`
  for ax_flag in "$srcdir" "$ax_source" "`pwd`"; do
    AM_CFLAGS="$AM_CFLAGS -ffile-prefix-map=$ax_flag=."
  done])
# Fuzz targets link libFuzzer's main(): clang only.  Where LIB_FUZZING_ENGINE is
# set, it is linked instead, and CFLAGS choose the sanitizers (OSS-Fuzz).
AC_ARG_ENABLE([fuzzing], [AS_HELP_STRING([--enable-fuzzing],
  [build tests/fuzz for libFuzzer, with sanitizers; needs clang])],
  [], [enable_fuzzing=no])
AC_ARG_VAR([LIB_FUZZING_ENGINE],
  [what fuzz targets link with --enable-fuzzing (default: libFuzzer, with
   AddressSanitizer and UndefinedBehaviorSanitizer)])
AS_IF([test "$enable_fuzzing" = yes], [
  AS_IF([test -n "$LIB_FUZZING_ENGINE"],
    [FUZZER_LIBS=$LIB_FUZZING_ENGINE],
    [AM_CFLAGS="$AM_CFLAGS -fsanitize=fuzzer-no-link,address,undefined"
    AM_CFLAGS="$AM_CFLAGS -fno-sanitize-recover=undefined"
    AM_LDFLAGS="-fsanitize=address,undefined"
    FUZZER_LDFLAGS="-fsanitize=fuzzer"])])
AS_IF([test "$enable_sanitizers$enable_thread_sanitizer" = yesyes],
  [AC_MSG_ERROR([--enable-sanitizers and --enable-thread-sanitizer exclude each other])])
AS_IF([test "$enable_thread_sanitizer" = yes], [
  AM_CFLAGS="$AM_CFLAGS -fsanitize=thread -fno-omit-frame-pointer"
  AM_LDFLAGS="-fsanitize=thread"])
# The file in C++ gets the options that both languages have.
AM_CXXFLAGS="-Wall -Wextra -Wshadow -Wundef"
for ax_flag in $AM_CFLAGS; do
  AS_CASE([$ax_flag], [-fsanitize*|-fno-*|-ffile-prefix*|-Werror],
    [AM_CXXFLAGS="$AM_CXXFLAGS $ax_flag"])
done
AC_SUBST([AM_CXXFLAGS])
AC_SUBST([FUZZER_LDFLAGS])
AC_SUBST([FUZZER_LIBS])
AM_CONDITIONAL([FUZZING], [test "$enable_fuzzing" = yes])
AM_CONDITIONAL([SANITIZERS], [test "$enable_sanitizers" = yes])
AC_SUBST([AM_CFLAGS])
AC_SUBST([AM_LDFLAGS])
])
