// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/binary"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// The inner Ethernet sources of tunnelled packets, by their class (docs/design/141).
var (
	ClassDirect      = state.MAC{0x02, 0xa1, 0x07, 0x00, 0x02, 0}
	ClassReturned    = state.MAC{0x02, 0xa1, 0x07, 0x00, 0x02, 1}
	ClassToDivider   = state.MAC{0x02, 0xa1, 0x07, 0x00, 0x02, 2}
	ClassToBouncer   = state.MAC{0x02, 0xa1, 0x07, 0x00, 0x02, 3}
	ClassFromBouncer = state.MAC{0x02, 0xa1, 0x07, 0x00, 0x02, 4}
)

// Unjudged is the flag of a source with an identity: the receiver judges egress, too.
const Unjudged = 0x80

// Classes of tunnelled packets.
const (
	ClassOfDirect   = uint8(0)
	ClassOfReturned = uint8(1)
	lastClass       = uint8(4)
)

// IdentitySource is the source with an identity, flags and a class.
func IdentitySource(identity uint32, flags, class uint8) state.MAC {
	source := state.MAC{0x02, 0xa2, 0, 0, 0, flags | class}
	copy(source[2:5], binary.BigEndian.AppendUint32(nil, identity)[1:])
	return source
}

// SourceOf is the source of an interface's packets.
func SourceOf(i state.Interface, class uint8) state.MAC {
	if i.SendsIdentity {
		return IdentitySource(i.Identity, 0, class)
	}
	return WithClass(ClassDirect, class)
}

// hasIdentity reports whether a source has the form with an identity.
func hasIdentity(source state.MAC) bool { return bytes.HasPrefix(source[:], []byte{0x02, 0xa2}) }

// ClassOf is the class of a source of any form.
func ClassOf(source state.MAC) uint8 {
	class := ClassOfDirect
	switch {
	case hasIdentity(source):
		class = source[5] & 0x0f
	case bytes.Equal(source[:5], ClassDirect[:5]):
		class = source[5]
	}
	if class > lastClass {
		return ClassOfDirect
	}
	return class
}

// WithClass is the source that a node writes which sends a packet on, or back.
func WithClass(source state.MAC, class uint8) state.MAC {
	if hasIdentity(source) {
		source[5] = source[5]&0xf0 | class
		return source
	}
	source = ClassDirect
	source[5] = class
	return source
}
