# SPDX-License-Identifier: Apache-2.0
# AX_CPU_CLONES: whether the compiler can build one function for several levels
# of x86-64 and choose at load time (HAVE_TARGET_CLONES).
AC_DEFUN([AX_CPU_CLONES], [
AC_CACHE_CHECK([for function clones by x86-64 level], [ax_cv_target_clones], [
AC_LINK_IFELSE([AC_LANG_SOURCE([[
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
int f(int x) { return x + 1; }
int main(void) { return f(-1); }]])],
  [ax_cv_target_clones=yes], [ax_cv_target_clones=no])])
AS_IF([test "$ax_cv_target_clones" = yes],
  [AC_DEFINE([HAVE_TARGET_CLONES], [1],
    [Define if functions can be cloned by x86-64 level.])])
])
