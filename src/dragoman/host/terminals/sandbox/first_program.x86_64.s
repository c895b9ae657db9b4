        lea     table(%rip), %rbx
        xor     %ebp, %ebp
next:   xor     %eax, %eax
        cmp     16(%rbx), %rbp
        sete    %al
        add     8(%rbx), %rax
        cmp     $2, %rax
        jne     skip
        mov     (%rbx), %rax
        mov     24(%rbx), %rdi
        mov     32(%rbx), %rsi
        mov     40(%rbx), %rdx
        mov     48(%rbx), %r10
        mov     56(%rbx), %r8
        syscall
        mov     %rax, %rbp
skip:   add     $64, %rbx
        jmp     next
        .balign 8
table:
