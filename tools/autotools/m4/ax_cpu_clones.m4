# SPDX-License-Identifier: Apache-2.0
# AX_CPU_CLONES: whether the compiler can build one function for several levels
# of x86-64 and choose at load time (HAVE_TARGET_CLONES).  Static functions of
# one name in two files must not meet: those of clang 14 do.
AC_DEFUN([AX_CPU_CLONES_SOURCE], [AC_LANG_SOURCE([[
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
static int f(int x) { return x + 1; }
int $1(int, char **);
int $1(int argc, char **argv) { (void)argv; return f(-argc); }]])])
AC_DEFUN([AX_CPU_CLONES], [
AC_CACHE_CHECK([for function clones by x86-64 level], [ax_cv_target_clones], [
ax_cv_target_clones=no
AC_COMPILE_IFELSE([AX_CPU_CLONES_SOURCE([other])], [
  ax_saved_libs=$LIBS
  mv "conftest.$OBJEXT" "conftest_other.$OBJEXT"
  LIBS="conftest_other.$OBJEXT $LIBS"
  AC_LINK_IFELSE([AX_CPU_CLONES_SOURCE([main])], [ax_cv_target_clones=yes])
  rm -f "conftest_other.$OBJEXT"
  LIBS=$ax_saved_libs])])
AS_IF([test "$ax_cv_target_clones" = yes],
  [AC_DEFINE([HAVE_TARGET_CLONES], [1],
    [Define if functions can be cloned by x86-64 level.])])
])
