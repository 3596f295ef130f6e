// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// MarkSecond and fragmentHeaders are of outer_fragment.h: the mark of a clone, and
// the length of the headers of a fragment.
const (
	MarkSecond      = 0x80000000
	FragmentHeaders = 48
)

// Fragment checks that a frame has become one of two fragments for the node that has the
// destination, or the whole frame, where it fits.
func (r *Rules) Fragment(at Place, in, out []byte, before, mark uint32) error {
	switch {
	case mark != 0:
		return fmt.Errorf("the packet keeps its mark")
	case before&MarkSecond != 0:
		return secondFragment(in, out, int(before&0xffff))
	case bytes.Equal(in, out):
		return nil // by the tunnel's device
	}
	outer := view(out)
	if outer.ethertype != 0x86dd || outer.proto != 44 || outer.src != r.W.Config.TunnelSource6 ||
		len(out) < 14+FragmentHeaders+30 {
		return fmt.Errorf("no first fragment of this node's")
	}
	payload := out[14+FragmentHeaders:]
	switch {
	case int(binary.BigEndian.Uint16(out[18:])) != len(payload)+8 || len(payload)%8 != 0 ||
		binary.BigEndian.Uint16(out[56:]) != 1 || out[54] != state.ProtoUDP:
		return fmt.Errorf("a first fragment with other lengths or headers than its own")
	case FragmentHeaders+len(payload) > 1350:
		return fmt.Errorf("%d bytes do not fit the underlay", len(out)-14)
	case binary.BigEndian.Uint32(payload[12:])>>8 != at.VNI || int(binary.BigEndian.Uint16(payload[4:])) != len(in)+16:
		return fmt.Errorf("a first fragment of another VNI or length")
	case !bytes.Equal(payload[16:], in[:len(payload)-16]):
		return fmt.Errorf("the inner frame is changed")
	}
	for _, a := range r.state.Addresses {
		if a.VNI == at.VNI && a.Kind == state.Remote && a.IP == view(in).dst && a.Node == outer.dst {
			return nil
		}
	}
	return fmt.Errorf("%s does not have the address in VNI %d", outer.dst, at.VNI)
}

// secondFragment checks the second fragment: the rest of the clone, with its headers.
func secondFragment(in, out []byte, first int) error {
	rest := in[14+FragmentHeaders+first:]
	switch {
	case !bytes.Equal(out[14+FragmentHeaders:], rest):
		return fmt.Errorf("the second fragment has another rest")
	case int(binary.BigEndian.Uint16(out[18:])) != len(rest)+8 || int(binary.BigEndian.Uint16(out[56:])) != first:
		return fmt.Errorf("the second fragment has other lengths than its own")
	}
	return nil
}
