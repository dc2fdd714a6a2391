/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors and reset of an MPS2 board (AN386, Cortex-M4) under qemu, for emit.sh
 * and tests/bench/emit_cortex.sh.
 */
extern int main(void);
extern void exit(int);
extern void initialise_monitor_handles(void);
extern unsigned stack;
void _init(void);
void _fini(void);
void reset(void);
void _init(void)
{
}
void _fini(void)
{
}
void reset(void)
{
    *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* FPU on */
    __asm__ volatile("dsb\nisb");
    initialise_monitor_handles();
    exit(main());
}
static void fault(void)
{
    exit(99);
}
__attribute__((section(".vectors"), used)) static const struct {
    unsigned *stack;
    void (*handler[6])(void);
} vectors = {&stack, {reset, fault, fault, fault, fault, fault}};
