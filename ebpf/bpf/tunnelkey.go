// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// WithTunnelKey returns a program that sets the tunnel key of a packet like the VXLAN
// device, and calls another program. Call release after use.
func WithTunnelKey(next *ebpf.Program, vni uint32, node netip.Addr) (program *ebpf.Program, release func(), err error) {
	// The kernel empties it without an open descriptor, so it stays open.
	jump, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, nil, fmt.Errorf("make map: %w", err)
	}
	if err := jump.Put(uint32(0), next); err != nil {
		jump.Close()
		return nil, nil, fmt.Errorf("link programs: %w", err)
	}
	words, flags := tunnelKey(vni, node)
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	for i, w := range words {
		code = append(code, asm.StoreImm(asm.RFP, int16(4*i-tunnelKeySize), int64(int32(w)), asm.Word))
	}
	code = append(code,
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -tunnelKeySize),
		asm.Mov.Imm(asm.R3, tunnelKeySize), asm.Mov.Imm(asm.R4, flags),
		asm.FnSkbSetTunnelKey.Call(),
		asm.Mov.Reg(asm.R1, asm.R6), asm.LoadMapPtr(asm.R2, jump.FD()), asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, -1), asm.Return(),
	)
	program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "GPL", Instructions: code,
	})
	if err != nil {
		jump.Close()
		return nil, nil, fmt.Errorf("load program: %w", err)
	}
	return program, func() {
		program.Close()
		jump.Close()
	}, nil
}

// tunnelKeySize is the size of struct bpf_tunnel_key.
const tunnelKeySize = 44

// tunnelKey is a struct bpf_tunnel_key in words, and the helper's flags. The helper
// that sets a key writes the local address to the place where the receiving side reads
// the sender's.
func tunnelKey(vni uint32, node netip.Addr) (words [tunnelKeySize / 4]uint32, flags int32) {
	const local = 28 / 4
	words[0] = vni
	if node.Is4() {
		b := node.As4()
		words[local] = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		return words, 0
	}
	b := node.As16()
	for i := range 4 {
		words[local+i] = uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24
	}
	return words, 1 // BPF_F_TUNINFO_IPV6
}
