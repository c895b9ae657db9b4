        adr     x19, table
        mov     x20, #0
next:   ldp     x8, x5, [x19]
        ldr     x6, [x19, #16]
        cmp     x20, x6
        cset    x6, eq
        add     x5, x5, x6
        cmp     x5, #2
        b.ne    skip
        ldp     x0, x1, [x19, #24]
        ldp     x2, x3, [x19, #40]
        ldr     x4, [x19, #56]
        svc     #0
        mov     x20, x0
skip:   add     x19, x19, #64
        b       next
        .balign 8
table:
