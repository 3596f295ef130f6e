// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// ErrNoIterator reports that the kernel refuses iterators over what is stored with sockets.
// Some kernels that are locked down do (kernel_lockdown(7)), although they take all other
// programs.
var ErrNoIterator = errors.New("the kernel refuses BPF iterators over the storage of sockets (iter/bpf_sk_storage_map)")

// ProbeStale returns an ErrNoIterator if stale sockets can't be found with this kernel.
func ProbeStale() error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "alioth_probe", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "bpf_sk_storage_map",
		License: "GPL", Instructions: nothing(),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoIterator, err)
	}
	return program.Close()
}

// withoutStale replaces the program that finds stale sockets where the kernel refuses it.
// Generated code wants a program of its name.
func withoutStale(spec *ebpf.CollectionSpec) {
	if ProbeStale() == nil {
		return
	}
	spec.Programs[bpf.AliothProgAliothStale] = &ebpf.ProgramSpec{
		Name: bpf.AliothProgAliothStale, Type: ebpf.SocketFilter, License: "GPL", Instructions: nothing(),
	}
}

func nothing() asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()} }
