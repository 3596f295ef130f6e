// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judged

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -cflags "-O2 -g -mcpu=v3 -Wall -Werror -nostdinc" -type judging_flag Judged ../../../src/judged.bpf.c -- -I../../../src/headers
